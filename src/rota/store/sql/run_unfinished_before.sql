SELECT id FROM run WHERE job_id = :job_id AND finished_at IS NULL AND id < :id LIMIT 1
