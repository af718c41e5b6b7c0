-- name: store_shared
-- The database belongs to one folder: file locks show the live processes.
SELECT 0

-- name: server_clock
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)

-- name: process_lease
-- A process whose lease expired before a newer rota upgraded the database cannot renew it.
UPDATE process SET lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + :lease WHERE epoch = :epoch AND ended_at IS NULL
    AND (SELECT max(number) FROM migration) <= :schema
RETURNING lease_until

-- name: processes_lapsed
SELECT process.epoch, worker.name, worker.host, process.kind
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.ended_at IS NULL AND process.lease_until < CAST(unixepoch('subsec') * 1000 AS INTEGER) AND process.worker_id <> :worker_id ORDER BY process.epoch

-- name: process_lapsed
SELECT 1 FROM process WHERE epoch = :epoch AND ended_at IS NULL AND (lease_until < CAST(unixepoch('subsec') * 1000 AS INTEGER) OR :forced = 1)

-- name: process_claims
SELECT worker.draining,
    NOT EXISTS (SELECT 1 FROM process AS other WHERE other.ended_at IS NULL AND other.epoch <> process.epoch)
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.epoch = :epoch AND process.ended_at IS NULL

-- name: lock_briefly
-- SQLite has no row locks.
SELECT 1

-- name: worker_insert
INSERT INTO worker (seq, id, name, labels, host, state, created_at)
SELECT coalesce(max(seq), 0) + 1, :id, :name, :labels, :host, :state, :now FROM worker WHERE true
ON CONFLICT DO NOTHING
