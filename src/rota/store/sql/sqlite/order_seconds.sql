-- The runs next behind these heads, each in its lane.
SELECT item.value ->> 0, r.position, r.created_at, r.id
FROM json_each(:heads) AS item
JOIN run r ON r.rowid = (
    SELECT q.rowid FROM run q
    WHERE q.lane_id = item.value ->> 0 AND q.status = 'QUEUED' AND q.waiting_for IS NULL AND q.rank = :rank
      AND (q.position, q.created_at, q.id) > (item.value ->> 1, item.value ->> 2, item.value ->> 3)
    ORDER BY q.position, q.created_at, q.id LIMIT 1)
