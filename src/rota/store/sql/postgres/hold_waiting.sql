-- How many runs could be claimed but for the pool of their provider. The order keeps to the index, however many runs there are.
SELECT count(*) FROM (
    SELECT 1 FROM lane_pool CROSS JOIN LATERAL (
        SELECT 1 FROM run WHERE run.lane_id = lane_pool.lane_id AND run.status = 'QUEUED' AND run.waiting_for IS NULL AND run.lane_id > 0
        ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit) AS ready
    WHERE lane_pool.pool = :pool LIMIT :limit) AS waiting
