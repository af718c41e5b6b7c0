SELECT id, coalesce(covers_to, scheduled_for, created_at) FROM run
WHERE job_id = :job_id AND status = :status AND finished_at < :before
  AND NOT EXISTS (SELECT 1 FROM run newer WHERE newer.retry_of = run.id)
ORDER BY finished_at LIMIT :limit
