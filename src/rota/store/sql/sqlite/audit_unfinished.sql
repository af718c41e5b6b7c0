SELECT id FROM run WHERE job_id = :job_id AND status IN ('QUEUED', 'DISPATCHED', 'RUNNING') AND trigger = 'schedule' LIMIT 1
