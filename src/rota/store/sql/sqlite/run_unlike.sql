SELECT run.number
FROM run LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
  AND (CASE run.status WHEN 'DISPATCHED' THEN 'RUNNING' ELSE run.status END <> :status
    OR run.reason IS DISTINCT FROM CAST(:reason AS TEXT)
    OR coalesce(json_array_length(execution.artifacts, '$.denied_tools'), 0) <> :denied)
ORDER BY run.number DESC LIMIT 1
