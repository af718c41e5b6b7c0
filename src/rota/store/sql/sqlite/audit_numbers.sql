SELECT job.name, job.run_number, (SELECT max(run.number) FROM run WHERE run.job_id = job.id) AS highest FROM job
WHERE (:jobs IS NULL OR job.id IN (SELECT value FROM json_each(:jobs))) AND highest > job.run_number LIMIT :limit
