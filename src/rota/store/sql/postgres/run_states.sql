-- name: run_claim
-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE run SET status = item.status, worker_id = :worker_id, slot = item.slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = item.started_at
FROM (
    SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS slot, value ->> 2 AS status, CAST(value ->> 3 AS bigint) AS started_at
    FROM jsonb_array_elements(CAST(:runs AS jsonb))) AS item
WHERE run.id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:runs AS jsonb)))) AND run.id = item.id
    AND CASE WHEN run.status = 'QUEUED' AND run.waiting_for IS NULL THEN true ELSE false END

-- name: run_finish_alike
-- Runs that end in one way, as most do that end together. CASE hides the condition from the planner: they are found by identifier.
UPDATE run SET status = :status, reason = :reason, finished_at = :finished_at, error = :error, result_summary = :summary,
    waiting_for = NULL, not_before = NULL
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))
    AND CASE WHEN status = :expected AND epoch IS NOT DISTINCT FROM :epoch THEN true ELSE false END
RETURNING id, job_id, version, trigger, scheduled_for, started_at, predecessor_id, lane_id, attempt, chain_id, group_id, cancel_reason,
    worker_id

-- name: run_finish
-- = ANY: by identifier whatever the statistics say; a short table, all of it queued when they were taken, would be read for each run.
UPDATE run SET status = item.status, reason = item.reason, finished_at = item.finished_at, error = item.error,
    result_summary = item.summary, waiting_for = NULL, not_before = NULL
FROM (
    SELECT value ->> 0 AS id, value ->> 1 AS expected, CAST(value ->> 2 AS bigint) AS finished_at, value ->> 3 AS status,
        value ->> 4 AS reason, value ->> 5 AS error, value ->> 6 AS summary FROM jsonb_array_elements(CAST(:runs AS jsonb))) AS item
WHERE run.id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:runs AS jsonb)))) AND run.id = item.id
    AND run.status = item.expected AND run.epoch IS NOT DISTINCT FROM :epoch
RETURNING run.id, job_id, version, trigger, scheduled_for, started_at, predecessor_id, lane_id, attempt, chain_id, group_id, cancel_reason,
    worker_id
