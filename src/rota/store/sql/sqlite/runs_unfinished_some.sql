-- What runs of a job, and the oldest of what is queued: a queue may be long.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id IN (
    SELECT id FROM run INDEXED BY run_slot WHERE status IN ('DISPATCHED', 'RUNNING') AND job_id = :job_id
    UNION
    SELECT id FROM (SELECT id FROM run INDEXED BY run_unfinished WHERE job_id = :job_id AND finished_at IS NULL ORDER BY id LIMIT :limit))
ORDER BY run.id
