-- The heads of the lanes in order, each found by one step into the index: the cost grows with the lanes, not with the queued runs (R-03).
-- A lane all of whose pools are full is left out: its runs cannot go, and what they would hold nobody could take.
SELECT lane.id, lane.key, r.rank, r.position, r.created_at, r.id
FROM lane
JOIN run r ON r.rowid = (
    SELECT q.rowid FROM run q WHERE q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL
    ORDER BY q.rank DESC, q.position, q.created_at, q.id LIMIT 1)
WHERE lane.id = 1 OR EXISTS (
    SELECT 1 FROM lane_pool JOIN pool ON pool.name = lane_pool.pool WHERE lane_pool.lane_id = lane.id AND pool.used < pool.capacity)
ORDER BY r.rank DESC, r.position, r.created_at, r.id
