SELECT job.name, run.slot_key, count(*) FROM run JOIN job ON job.id = run.job_id
WHERE run.slot_key IS NOT NULL AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
GROUP BY run.job_id, run.slot_key HAVING count(*) > 1 LIMIT :limit
