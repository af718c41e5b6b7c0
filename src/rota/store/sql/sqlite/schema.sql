-- name: audit_schema
SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'

-- name: probe_indexes
-- One step into each index that a round needs: damage or a missing index is met at the start, not at the first fire.
SELECT
    (SELECT 1 FROM job INDEXED BY job_due WHERE next_at IS NOT NULL LIMIT 1),
    (SELECT 1 FROM job INDEXED BY job_pause_ends WHERE paused_until IS NOT NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_ready WHERE status = 'QUEUED' AND waiting_for IS NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_released WHERE status = 'QUEUED' AND not_before IS NOT NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_expiring WHERE status = 'QUEUED' AND expires_at IS NOT NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_unfinished WHERE finished_at IS NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_fire WHERE slot_key IS NOT NULL LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_slot WHERE status IN ('DISPATCHED', 'RUNNING') LIMIT 1),
    (SELECT 1 FROM execution INDEXED BY execution_slot WHERE finished_at IS NULL LIMIT 1),
    (SELECT 1 FROM process INDEXED BY process_open WHERE ended_at IS NULL LIMIT 1)

-- name: database_version
SELECT sqlite_version()
