SELECT worker.draining,
    NOT EXISTS (SELECT 1 FROM process AS other WHERE other.ended_at IS NULL AND other.epoch <> process.epoch)
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.epoch = :epoch AND process.ended_at IS NULL
