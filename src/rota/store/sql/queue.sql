-- name: pools_all
SELECT pool.name, pool.capacity, pool.used, pool.declared, hold.until FROM pool LEFT JOIN provider_hold AS hold ON hold.pool = pool.name
ORDER BY pool.name

-- name: pools_drop
DELETE FROM pool WHERE declared = 0 AND used = 0 AND name NOT IN (SELECT pool FROM lane_pool)

-- name: abandoned_all
-- Runs and direct calls whose code still runs after their end, with its slot.
SELECT abandoned.run_id, job.name, run.number, run.finished_at, abandoned.slot
FROM abandoned LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.id = run.job_id
ORDER BY abandoned.run_id

-- name: pools_drawn
SELECT DISTINCT pool FROM lane_pool

-- name: pool_take
-- The condition decides, not an earlier read. A return of room (a negative cost) always fits.
UPDATE pool SET used = used + :cost
WHERE name = :name AND (CAST(:cost AS bigint) < 0 OR (used + :cost <= capacity
    AND NOT EXISTS (SELECT 1 FROM provider_hold WHERE pool = :name AND until IS NOT NULL)))

-- name: lane_by_key
SELECT id FROM lane WHERE key = :key

-- name: lane_insert
INSERT INTO lane (key) VALUES (:key) ON CONFLICT (key) DO NOTHING

-- name: lanes_all
SELECT id, key FROM lane

-- name: runs_queued
SELECT id, priority FROM run WHERE status = 'QUEUED' AND finished_at IS NULL

-- name: run_set_params
UPDATE run SET params = :params WHERE id = :id AND status = 'QUEUED'

-- name: run_set_priority
UPDATE run SET priority = :priority, rank = :rank, position = :position WHERE id = :id AND status = 'QUEUED'

-- name: holds_all
SELECT pool, until, stated, refusals, why, run_id, set_at FROM provider_hold ORDER BY pool

-- name: hold_of
SELECT pool, until, stated, refusals, why, run_id, set_at FROM provider_hold WHERE pool = :pool
{{FOR NO KEY UPDATE}}

-- name: hold_put
INSERT INTO provider_hold (pool, until, stated, refusals, why, run_id, set_at)
VALUES (:pool, :until, :stated, :refusals, :why, :run_id, :set_at)
ON CONFLICT (pool) DO UPDATE SET until = excluded.until, stated = excluded.stated, refusals = excluded.refusals, why = excluded.why,
    run_id = excluded.run_id, set_at = excluded.set_at

-- name: hold_forget
DELETE FROM provider_hold WHERE pool = :pool RETURNING until

-- name: holds_end
-- The count of refusals stays until a run succeeds.
UPDATE provider_hold SET until = NULL WHERE until <= :now RETURNING pool

-- name: hold_next_end
SELECT min(until) FROM provider_hold

-- name: holds_shift
UPDATE provider_hold SET until = until - :back, set_at = set_at - :back WHERE until IS NOT NULL AND stated = 0
