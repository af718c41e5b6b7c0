SELECT id, cancel_reason FROM run WHERE cancel_requested_at IS NOT NULL AND finished_at IS NULL AND epoch = :epoch
