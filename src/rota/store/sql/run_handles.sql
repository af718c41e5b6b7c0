SELECT job.name || ':' || run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.job_id = (SELECT id FROM job WHERE name = :job) ORDER BY run.number DESC LIMIT :limit
