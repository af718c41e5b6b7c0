SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses))
    OR run.status || '/' || run.reason IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
ORDER BY run.number DESC LIMIT :limit
