-- What runs of a job, and the oldest of what is queued: a queue may be long.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id IN (
    SELECT id FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND job_id = :job_id
    UNION
    SELECT id FROM (SELECT id FROM run WHERE job_id = :job_id AND finished_at IS NULL ORDER BY id LIMIT :limit) AS oldest)
ORDER BY run.id
