UPDATE run SET status = :status, reason = :reason, finished_at = :now, error = :error, result_summary = :result_summary,
    waiting_for = NULL, not_before = NULL
WHERE id = :id AND status = :expected AND epoch IS :epoch
