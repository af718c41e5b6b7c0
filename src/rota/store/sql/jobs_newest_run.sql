-- When the newest run of each job was made, for jobs that have one.
SELECT job.id, (SELECT created_at FROM run WHERE job_id = job.id ORDER BY number DESC LIMIT 1) FROM job WHERE retired_at IS NULL
