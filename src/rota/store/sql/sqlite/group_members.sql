SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.group_id = :group_id ORDER BY run.place, run.attempt
