SELECT worker.draining FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.epoch = :epoch AND process.ended_at IS NULL
