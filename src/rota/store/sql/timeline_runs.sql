SELECT number, status, reason, count, scheduled_for, covers_to, created_at, started_at, finished_at
FROM run WHERE job_id = :job_id ORDER BY number DESC LIMIT :limit
