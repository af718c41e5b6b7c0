-- name: prune_groups_empty
-- Groups without remaining members, unless a newer group retries them.
SELECT id FROM run_group
WHERE id < :before AND finished_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM run WHERE run.group_id = run_group.id)
  AND NOT EXISTS (SELECT 1 FROM run_group newer WHERE newer.retry_of = run_group.id)
ORDER BY id LIMIT :limit

-- name: prune_candidates
-- Rows that others point at go last: of a chain its end leads, unless a run outside the chain repeats one of it.
SELECT run.id, coalesce(run.covers_to, run.scheduled_for, run.created_at) FROM ended JOIN run ON run.seq = ended.run
WHERE ended.job = (SELECT seq FROM job WHERE id = :job_id) AND ended.status = :status AND ended.finished_at < :before
  AND NOT EXISTS (SELECT 1 FROM run newer WHERE newer.retry_of = run.id)
  AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.run_id = run.id)
  AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.id = run.group_id AND run_group.finished_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM run earlier JOIN run newer ON newer.retry_of = earlier.id
    WHERE (earlier.id = run.chain_id OR earlier.chain_id = run.chain_id) AND newer.chain_id IS DISTINCT FROM run.chain_id)
ORDER BY ended.finished_at LIMIT :limit

-- name: prune_surplus
SELECT run.id, coalesce(run.covers_to, run.scheduled_for, run.created_at) FROM ended JOIN run ON run.seq = ended.run
WHERE ended.job = (SELECT seq FROM job WHERE id = :job_id) AND ended.status = :status AND ended.finished_at <= (
    SELECT finished_at FROM ended WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND status = :status ORDER BY finished_at DESC LIMIT 1 OFFSET :keep)
  AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.id = run.group_id AND run_group.finished_at IS NULL)
  AND run.chain_id IS NULL AND NOT EXISTS (SELECT 1 FROM run newer WHERE newer.retry_of = run.id)
ORDER BY ended.finished_at LIMIT :limit
