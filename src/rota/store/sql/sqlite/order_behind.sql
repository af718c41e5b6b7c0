-- The same towards the head of the queue: before a spot, nearest first.
SELECT lane.id, r.position, r.created_at, r.id
FROM lane
JOIN run r ON r.rowid = (
    SELECT q.rowid FROM run q
    WHERE q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL AND q.rank = :rank
      AND (q.position, q.created_at, q.id) < (:position, :created_at, :id)
    ORDER BY q.position DESC, q.created_at DESC, q.id DESC LIMIT 1)
WHERE lane.id > 0
ORDER BY r.position DESC, r.created_at DESC, r.id DESC LIMIT :lanes
