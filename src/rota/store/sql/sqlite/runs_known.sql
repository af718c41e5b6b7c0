SELECT id, job_id, finished_at FROM run WHERE id IN (SELECT value FROM json_each(:ids))
