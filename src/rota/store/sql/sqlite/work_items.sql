-- name: work_open_of
SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE run_id IN (SELECT value FROM json_each(:ids)) AND ended_at IS NULL

-- name: prune_work
DELETE FROM work_item WHERE run_id IN (SELECT value FROM json_each(:ids)) AND told_at IS NOT NULL
