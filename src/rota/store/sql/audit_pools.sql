-- R-03: what a pool counts as used is what is drawn now, counted anew.
SELECT pool.name, pool.used, coalesce(counted.cost, 0) FROM pool
LEFT JOIN (
    SELECT lane_pool.pool AS name, sum(lane_pool.cost) AS cost FROM (
        SELECT lane_id FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND lane_id > 1
        UNION ALL SELECT lane_id FROM execution WHERE run_id IS NULL AND finished_at IS NULL
        UNION ALL SELECT lane_id FROM direct_wait WHERE slot IS NOT NULL
        UNION ALL SELECT lane_id FROM abandoned) AS holder
    JOIN lane_pool ON lane_pool.lane_id = holder.lane_id GROUP BY lane_pool.pool) AS counted ON counted.name = pool.name
WHERE pool.used <> coalesce(counted.cost, 0)
