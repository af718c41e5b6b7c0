SELECT job.name, run.number, count(*) FROM run JOIN job ON job.id = run.job_id
WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
GROUP BY run.job_id, run.number HAVING count(*) > 1 LIMIT :limit
