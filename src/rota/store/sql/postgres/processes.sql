-- name: store_shared
-- Folders of many machines use the database: leases tell who is alive.
SELECT 1

-- name: server_clock
-- The time of the database's machine, not that of this transaction's beginning: one clock for all.
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)

-- name: process_lease
-- Who came back after its lease was over and a newer rota had upgraded the database is not alive in it.
UPDATE process SET lease_until = CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + :lease WHERE epoch = :epoch AND ended_at IS NULL
    AND (SELECT max(number) FROM migration) <= :schema
RETURNING lease_until

-- name: processes_lapsed
SELECT process.epoch, worker.name, worker.host, process.kind
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.ended_at IS NULL AND process.lease_until < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AND process.worker_id <> :worker_id ORDER BY process.epoch

-- name: process_lapsed
-- Held against claims under this epoch, which share its key: either they see that it is over, or whoever ends it sees what they took.
SELECT 1 FROM process WHERE epoch = :epoch AND ended_at IS NULL AND (lease_until < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) OR :forced = 1)
{{FOR UPDATE}}

-- name: process_claims
-- Held until the claim is committed: nobody declares the process lost meanwhile (its lease may be renewed).
SELECT worker.draining,
    NOT EXISTS (SELECT 1 FROM process AS other WHERE other.ended_at IS NULL AND other.epoch <> process.epoch)
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.epoch = :epoch AND process.ended_at IS NULL
{{FOR KEY SHARE OF process}}

-- name: lock_briefly
-- For this transaction alone.
SELECT set_config('lock_timeout', '1s', true)
