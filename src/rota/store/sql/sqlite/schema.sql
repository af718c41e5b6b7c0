-- name: audit_schema
SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'

-- name: probe_indexes
-- One step into each index that a round needs: damage or a missing index is met at the start, not at the first fire.
SELECT
    (SELECT 1 FROM job INDEXED BY job_due WHERE next_at IS NOT NULL LIMIT 1),
    (SELECT 1 FROM job INDEXED BY job_pause_ends WHERE paused_until IS NOT NULL LIMIT 1),
    (SELECT 1 FROM live INDEXED BY live_ready WHERE state = 1 LIMIT 1),
    (SELECT 1 FROM live INDEXED BY live_order WHERE state = 1 AND lane_id > 1 LIMIT 1),
    (SELECT 1 FROM live INDEXED BY live_released WHERE not_before IS NOT NULL LIMIT 1),
    (SELECT 1 FROM live INDEXED BY live_expiring WHERE state < 2 AND expires_at IS NOT NULL LIMIT 1),
    (SELECT 1 FROM live INDEXED BY live_job WHERE job > 0 LIMIT 1),
    (SELECT 1 FROM live INDEXED BY live_slot WHERE state >= 2 LIMIT 1),
    (SELECT 1 FROM run INDEXED BY run_fire WHERE slot_key IS NOT NULL LIMIT 1),
    (SELECT 1 FROM call INDEXED BY call_slot WHERE finished_at IS NULL LIMIT 1),
    (SELECT 1 FROM process INDEXED BY process_open WHERE ended_at IS NULL LIMIT 1)

-- name: database_version
SELECT sqlite_version()
