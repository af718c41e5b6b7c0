SELECT id FROM run WHERE job_id = :job_id AND status IN ('QUEUED', 'DISPATCHED', 'RUNNING') AND id < :id LIMIT 1
