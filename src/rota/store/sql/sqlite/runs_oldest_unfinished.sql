-- Of each job the oldest run that is not final.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM json_each(:job_ids) AS item
JOIN run ON run.id = (SELECT min(own.id) FROM run AS own INDEXED BY run_unfinished WHERE own.job_id = item.value AND own.finished_at IS NULL)
JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key
