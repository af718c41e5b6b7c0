-- The head of each lane, by one step into the index: the cost grows with the lanes, not with the queued runs (R-03).
SELECT r.lane_id, r.rank, r.position, r.created_at, r.id
FROM json_each(:lanes) AS lane
JOIN run r ON r.rowid = (
    SELECT q.rowid FROM run q WHERE q.lane_id = lane.value AND q.status = 'QUEUED' AND q.waiting_for IS NULL
    ORDER BY q.rank DESC, q.position, q.created_at, q.id LIMIT 1)
