SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM json_each(:job_ids) AS item
JOIN run ON run.id IN (SELECT id FROM run AS own WHERE own.job_id = item.value ORDER BY own.number DESC LIMIT :limit)
JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key, run.number DESC
