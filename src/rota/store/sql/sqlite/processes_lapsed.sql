SELECT process.epoch, worker.name, worker.host, process.kind
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.ended_at IS NULL AND process.lease_until < CAST(unixepoch('subsec') * 1000 AS INTEGER) AND process.worker_id <> :worker_id ORDER BY process.epoch
