SELECT run.id, run.number, run.error, run.result_summary
FROM run
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses))
    OR run.status || '/' || run.reason IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
ORDER BY run.number DESC LIMIT :limit
