SELECT id, cancel_reason FROM run WHERE cancel_requested_at IS NOT NULL AND status IN ('DISPATCHED', 'RUNNING') AND epoch = :epoch
