SELECT id, coalesce(covers_to, scheduled_for, created_at) FROM run
WHERE job_id = :job_id AND status = :status AND finished_at <= (
    SELECT finished_at FROM run WHERE job_id = :job_id AND status = :status AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT 1 OFFSET :keep)
ORDER BY finished_at LIMIT :limit
