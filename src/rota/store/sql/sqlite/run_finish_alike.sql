-- Runs that end in one way, as most do that end together.
UPDATE run SET status = :status, reason = :reason, finished_at = :finished_at, error = :error, result_summary = :summary,
    waiting_for = NULL, not_before = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = :expected AND epoch IS :epoch
RETURNING id, job_id, version, trigger, scheduled_for, started_at, predecessor_id, lane_id, attempt, chain_id, group_id, cancel_reason,
    worker_id
