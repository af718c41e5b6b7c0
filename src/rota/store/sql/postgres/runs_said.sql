SELECT run.id, run.number, run.error, run.result_summary
FROM run
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:job_ids AS json)))))
ORDER BY run.id DESC LIMIT :limit
