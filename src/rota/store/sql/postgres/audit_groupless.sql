SELECT job.name, run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.lane_id = 0 AND run.status = 'RUNNING' AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.run_id = run.id)
  AND (CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
LIMIT :limit
