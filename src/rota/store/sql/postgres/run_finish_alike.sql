-- Runs that end in one way, as most do that end together. CASE hides the condition from the planner: they are found by identifier.
UPDATE run SET status = :status, reason = :reason, finished_at = :finished_at, error = :error, result_summary = :summary,
    waiting_for = NULL, not_before = NULL
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))
    AND CASE WHEN status = :expected AND epoch IS NOT DISTINCT FROM :epoch THEN true ELSE false END
RETURNING id, job_id, version, trigger, scheduled_for, started_at, predecessor_id, lane_id, attempt, chain_id, group_id, cancel_reason,
    worker_id
