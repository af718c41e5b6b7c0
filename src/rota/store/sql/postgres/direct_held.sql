-- Every unfinished direct call, and who carries it.
SELECT execution.*, job.name AS job, direct_hold.epoch AS holder, direct_hold.cancel_requested_at
FROM direct_hold JOIN execution ON execution.id = direct_hold.execution_id LEFT JOIN job ON job.id = execution.job_id
ORDER BY execution.started_at, execution.id
