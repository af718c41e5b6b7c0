-- Who draws on a pool now: runs in slots, direct calls, and runs whose thread outlived them.
SELECT job.name || ':' || run.number
FROM run JOIN lane_pool ON lane_pool.lane_id = run.lane_id JOIN job ON job.id = run.job_id
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND lane_pool.pool = :pool
UNION ALL
SELECT coalesce(job.name || ':' || run.number, 'a direct call') || ' (abandoned)'
FROM abandoned JOIN lane_pool ON lane_pool.lane_id = abandoned.lane_id
LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.id = run.job_id
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM direct_hold JOIN execution ON execution.id = direct_hold.execution_id
JOIN lane_pool ON lane_pool.lane_id = execution.lane_id LEFT JOIN job ON job.id = execution.job_id
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM direct_wait JOIN lane_pool ON lane_pool.lane_id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.slot IS NOT NULL AND lane_pool.pool = :pool
