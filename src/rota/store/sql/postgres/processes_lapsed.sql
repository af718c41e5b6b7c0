SELECT process.epoch, worker.name, worker.host, process.kind
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.ended_at IS NULL AND process.lease_until < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AND process.worker_id <> :worker_id ORDER BY process.epoch
