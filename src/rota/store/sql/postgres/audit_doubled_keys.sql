SELECT job.name, run.slot_key, count(*) FROM run JOIN job ON job.id = run.job_id
WHERE run.slot_key IS NOT NULL
  AND (CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
GROUP BY job.id, run.slot_key HAVING count(*) > 1 LIMIT :limit
