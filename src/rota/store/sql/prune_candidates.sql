-- Rows that others point at go last: of a chain its end leads, unless a run outside the chain repeats one of it.
SELECT id, coalesce(covers_to, scheduled_for, created_at) FROM run
WHERE job_id = :job_id AND status = :status AND finished_at < :before
  AND NOT EXISTS (SELECT 1 FROM run newer WHERE newer.retry_of = run.id)
  AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.run_id = run.id)
  AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.id = run.group_id AND run_group.finished_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM run earlier JOIN run newer ON newer.retry_of = earlier.id
    WHERE (earlier.id = run.chain_id OR earlier.chain_id = run.chain_id) AND newer.chain_id IS DISTINCT FROM run.chain_id)
ORDER BY finished_at LIMIT :limit
