-- name: group_begin
UPDATE run SET status = 'RUNNING', started_at = :now, waiting_for = NULL, not_before = NULL
WHERE id = :id AND status = 'QUEUED' AND lane_id = 0

-- name: run_start
UPDATE run SET status = 'RUNNING', started_at = :now WHERE id = :id AND status = 'DISPATCHED' AND epoch = :epoch

-- name: run_release
UPDATE run SET status = 'QUEUED', worker_id = NULL, slot = NULL, epoch = NULL, waiting_for = :waiting_for,
    not_before = :not_before, losses = losses + :lost
WHERE id = :id AND status = 'DISPATCHED' AND epoch = :epoch
RETURNING lane_id, (SELECT process.worker_id FROM process WHERE process.epoch = :epoch)
