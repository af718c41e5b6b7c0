-- How many runs could be claimed but for the pool of their provider.
SELECT count(*) FROM (
    SELECT 1 FROM lane_pool CROSS JOIN run INDEXED BY run_ready ON run.lane_id = lane_pool.lane_id
    WHERE lane_pool.pool = :pool AND run.status = 'QUEUED' AND run.waiting_for IS NULL LIMIT :limit)
