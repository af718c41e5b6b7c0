SELECT run.id, run.number, run.error, run.result_summary
FROM run
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
ORDER BY run.number DESC LIMIT :limit
