SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM json_each(:ids) AS item JOIN run ON run.id = item.value JOIN job ON job.id = run.job_id
LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key
