-- name: store_shared
-- Several machines share the database: leases show the live processes.
SELECT 1

-- name: server_clock
-- The time of the database's machine, not that of this transaction's beginning: one clock for all.
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)

-- name: process_lease
-- A process whose lease expired before a newer rota upgraded the database cannot renew it.
UPDATE process SET lease_until = CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + :lease WHERE epoch = :epoch AND ended_at IS NULL
    AND (SELECT max(number) FROM migration) <= :schema
RETURNING lease_until

-- name: processes_lapsed
SELECT process.epoch, worker.name, worker.host, process.kind
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.ended_at IS NULL AND process.lease_until < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AND process.worker_id <> :worker_id ORDER BY process.epoch

-- name: process_lapsed
-- Locks against claims under this epoch, which share its key: a claim sees the end of the process, or its end sees the claim.
SELECT 1 FROM process WHERE epoch = :epoch AND ended_at IS NULL AND (lease_until < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) OR :forced = 1)
{{FOR UPDATE}}

-- name: process_claims
-- Locked until the commit of the claim: the process cannot be declared lost meanwhile (its lease may be renewed).
SELECT worker.draining,
    NOT EXISTS (SELECT 1 FROM process AS other WHERE other.ended_at IS NULL AND other.epoch <> process.epoch)
FROM process JOIN worker ON worker.id = process.worker_id
WHERE process.epoch = :epoch AND process.ended_at IS NULL
{{FOR KEY SHARE OF process}}

-- name: lock_briefly
-- For this transaction alone.
SELECT set_config('lock_timeout', '1s', true)

-- name: worker_insert
INSERT INTO worker (id, name, labels, host, state, created_at) VALUES (:id, :name, :labels, :host, :state, :now)
ON CONFLICT DO NOTHING
