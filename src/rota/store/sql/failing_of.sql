SELECT target, told_at FROM failing WHERE job_id = :job_id
