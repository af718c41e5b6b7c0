UPDATE run SET cancel_requested_at = :now, cancel_reason = :reason
WHERE id = :id AND status IN ('DISPATCHED', 'RUNNING') AND cancel_requested_at IS NULL
