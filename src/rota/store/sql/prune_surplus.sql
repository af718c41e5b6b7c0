SELECT id, coalesce(covers_to, scheduled_for, created_at) FROM run
WHERE job_id = :job_id AND status = :status AND finished_at <= (
    SELECT finished_at FROM run WHERE job_id = :job_id AND status = :status AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT 1 OFFSET :keep)
  AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.id = run.group_id AND run_group.finished_at IS NULL)
  AND chain_id IS NULL AND NOT EXISTS (SELECT 1 FROM run newer WHERE newer.retry_of = run.id)
ORDER BY finished_at LIMIT :limit
