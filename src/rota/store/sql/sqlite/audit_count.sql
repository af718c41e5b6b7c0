SELECT count(*) FROM run WHERE :jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))
