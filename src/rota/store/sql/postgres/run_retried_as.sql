SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.retry_of = :id AND run.trigger = 'retry'
