-- Held until the claim is committed: nobody declares the process lost meanwhile (its lease may be renewed).
SELECT worker.draining,
    NOT EXISTS (SELECT 1 FROM process AS other WHERE other.ended_at IS NULL AND other.epoch <> process.epoch)
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.epoch = :epoch AND process.ended_at IS NULL
-- when writing: FOR KEY SHARE OF process
