-- name: prune_direct
DELETE FROM call WHERE id IN (
    SELECT id FROM call WHERE job_id IS :job_id AND finished_at < :before ORDER BY id LIMIT :limit)
RETURNING id, finished_at

-- name: prune_groups
DELETE FROM run_group WHERE id IN (SELECT value FROM json_each(:ids))
  AND finished_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run WHERE run.group_id = run_group.id)

-- name: prune_chains
-- The runs of the chains that these end: a chain goes as one.
SELECT earlier.id FROM json_each(:ids) AS item JOIN run ON run.id = item.value
JOIN run earlier ON earlier.id = run.chain_id OR earlier.chain_id = run.chain_id
WHERE run.chain_id IS NOT NULL

-- name: prune_runs
DELETE FROM run WHERE id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM live WHERE live.run = run.seq)

-- name: prune_ended
DELETE FROM ended WHERE run IN (SELECT run.seq FROM json_each(:ids) AS item JOIN run ON run.id = item.value)
RETURNING status, (SELECT id FROM worker WHERE seq = ended.worker), finished_at
