UPDATE run SET status = :status, worker_id = :worker_id, slot = :slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = :started_at
WHERE id = :id AND status = 'QUEUED' AND waiting_for IS NULL
