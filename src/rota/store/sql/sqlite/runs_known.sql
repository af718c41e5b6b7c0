SELECT id, job_id, finished_at FROM run WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, job_id, finished_at FROM execution WHERE run_id IS NULL AND id IN (SELECT value FROM json_each(:ids))
