SELECT run.id, job.name, run.number, run.status FROM run JOIN job ON job.id = run.job_id
WHERE run.id IN (SELECT value FROM json_each(:ids))
