UPDATE run SET status = 'QUEUED', worker_id = NULL, slot = NULL, epoch = NULL, waiting_for = :waiting_for,
    not_before = :not_before, losses = losses + :lost
WHERE id = :id AND status = 'DISPATCHED' AND epoch = :epoch
RETURNING lane_id, (SELECT process.worker_id FROM process WHERE process.epoch = :epoch)
