SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:job_ids AS json)))))
ORDER BY run.id DESC LIMIT :limit
