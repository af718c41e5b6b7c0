SELECT execution.*, job.name AS job, direct_hold.epoch AS holder, direct_hold.cancel_requested_at
FROM execution LEFT JOIN direct_hold ON direct_hold.execution_id = execution.id LEFT JOIN job ON job.id = execution.job_id
WHERE execution.id = :id AND execution.run_id IS NULL
