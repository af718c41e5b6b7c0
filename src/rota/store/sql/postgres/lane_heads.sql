-- The heads of the lanes in order, each found by one step into the index: the cost grows with the lanes, not with the queued runs (R-03).
-- A lane all of whose pools are full is left out: its runs cannot go, and what they would hold nobody could take.
SELECT lane.id, lane.key, head.rank, head.position, head.created_at, head.id
FROM lane CROSS JOIN LATERAL (
    SELECT run.rank, run.position, run.created_at, run.id FROM run
    WHERE run.lane_id = lane.id AND run.status = 'QUEUED' AND run.waiting_for IS NULL AND run.lane_id > 0
    ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT 1) AS head
WHERE lane.id = 1 OR EXISTS (
    SELECT 1 FROM lane_pool JOIN pool ON pool.name = lane_pool.pool WHERE lane_pool.lane_id = lane.id AND pool.used < pool.capacity)
ORDER BY head.rank DESC, head.position, head.created_at, head.id
