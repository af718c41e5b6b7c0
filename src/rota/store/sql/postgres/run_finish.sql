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
