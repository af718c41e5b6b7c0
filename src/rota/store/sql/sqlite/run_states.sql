-- name: run_claim
UPDATE run SET status = item.status, worker_id = :worker_id, slot = item.slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = item.started_at
FROM (SELECT value ->> 0 AS id, value ->> 1 AS slot, value ->> 2 AS status, value ->> 3 AS started_at FROM json_each(:runs)) AS item
WHERE run.id = item.id AND run.status = 'QUEUED' AND run.waiting_for IS NULL

-- name: run_finish_alike
-- Runs that end in one way, as most do that end together.
UPDATE run SET status = :status, reason = :reason, finished_at = :finished_at, error = :error, result_summary = :summary,
    waiting_for = NULL, not_before = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = :expected AND epoch IS :epoch
RETURNING id, job_id, version, trigger, scheduled_for, started_at, predecessor_id, lane_id, attempt, chain_id, group_id, cancel_reason,
    worker_id

-- name: run_finish
UPDATE run SET status = item.status, reason = item.reason, finished_at = item.finished_at, error = item.error,
    result_summary = item.summary, waiting_for = NULL, not_before = NULL
FROM (SELECT value ->> 0 AS id, value ->> 1 AS expected, value ->> 2 AS finished_at, value ->> 3 AS status, value ->> 4 AS reason,
    value ->> 5 AS error, value ->> 6 AS summary FROM json_each(:runs)) AS item
WHERE run.id = item.id AND run.status = item.expected AND run.epoch IS :epoch
RETURNING id, job_id, version, trigger, scheduled_for, started_at, predecessor_id, lane_id, attempt, chain_id, group_id, cancel_reason,
    worker_id
