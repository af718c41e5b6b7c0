-- Behind a spot within a rank, the next ready run of each lane, by one step into the index; the first `lanes` of them (R-03).
SELECT lane.id, r.position, r.created_at, r.id
FROM lane
JOIN run r ON r.rowid = (
    SELECT q.rowid FROM run q
    WHERE q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL AND q.rank = :rank
      AND (q.position, q.created_at, q.id) > (:position, :created_at, :id)
    ORDER BY q.position, q.created_at, q.id LIMIT 1)
WHERE lane.id > 0
ORDER BY r.position, r.created_at, r.id LIMIT :lanes
