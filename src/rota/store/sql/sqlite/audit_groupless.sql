SELECT job.name, run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.lane_id = 0 AND run.status = 'RUNNING' AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.run_id = run.id)
  AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
LIMIT :limit
