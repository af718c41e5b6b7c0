DELETE FROM run WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NOT NULL
RETURNING status, worker_id
