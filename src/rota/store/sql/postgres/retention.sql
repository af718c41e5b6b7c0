-- name: prune_direct
DELETE FROM call WHERE id IN (
    SELECT id FROM call
    WHERE (job_id = :job_id OR (CAST(:job_id AS text) IS NULL AND job_id IS NULL)) AND finished_at < :before
    ORDER BY id LIMIT :limit)
RETURNING id, finished_at

-- name: prune_groups
DELETE FROM run_group WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
  AND finished_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run WHERE run.group_id = run_group.id)

-- name: prune_chains
-- The runs of the chains that these end: a chain goes as one.
SELECT earlier.id FROM json_array_elements_text(CAST(:ids AS json)) AS item (id) JOIN run ON run.id = item.id
JOIN run earlier ON earlier.id = run.chain_id OR earlier.chain_id = run.chain_id
WHERE run.chain_id IS NOT NULL

-- name: prune_runs
DELETE FROM run WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json)))) AND NOT EXISTS (SELECT 1 FROM live WHERE live.run = run.seq)

-- name: prune_ended
DELETE FROM ended USING run WHERE run.seq = ended.run AND run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
RETURNING ended.status, (SELECT worker.id FROM worker WHERE worker.seq = ended.worker), ended.finished_at
