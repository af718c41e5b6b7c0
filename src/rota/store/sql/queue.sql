-- name: pools_all
SELECT pool.name, pool.capacity, pool.used, pool.declared, hold.until, coalesce(hold.problem, '') FROM pool LEFT JOIN provider_hold AS hold ON hold.pool = pool.name
ORDER BY pool.name

-- name: pools_drop
DELETE FROM pool WHERE declared = 0 AND used = 0 AND name NOT IN (SELECT pool FROM lane_pool)

-- name: abandoned_all
-- Runs and direct calls whose code still runs after their end, with its slot.
SELECT abandoned.run_id, job.name, run.number, ended.finished_at, abandoned.slot
FROM abandoned LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.seq = run.job LEFT JOIN ended ON ended.run = run.seq
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

-- name: lane_key
SELECT key FROM lane WHERE id = :id

-- name: lane_insert
INSERT INTO lane (key) VALUES (:key) ON CONFLICT (key) DO NOTHING

-- name: lanes_all
SELECT id, key FROM lane

-- name: runs_queued
SELECT run.id, run.priority FROM live JOIN run ON run.seq = live.run WHERE live.state < 2

-- name: run_set_params
UPDATE run SET params = :params WHERE id = :id AND EXISTS (SELECT 1 FROM live WHERE live.run = run.seq AND live.state < 2)

-- name: run_set_priority
UPDATE run SET priority = :priority WHERE id = :id AND EXISTS (SELECT 1 FROM live WHERE live.run = run.seq AND live.state < 2)

-- name: holds_all
SELECT pool, until, stated, refusals, why, run_id, set_at, problem, since FROM provider_hold ORDER BY pool

-- name: hold_of
SELECT pool, until, stated, refusals, why, run_id, set_at, problem, since FROM provider_hold WHERE pool = :pool
{{FOR NO KEY UPDATE}}

-- name: hold_put
INSERT INTO provider_hold (pool, until, stated, refusals, why, run_id, set_at, problem, since)
VALUES (:pool, :until, :stated, :refusals, :why, :run_id, :set_at, :problem, :since)
ON CONFLICT (pool) DO UPDATE SET until = excluded.until, stated = excluded.stated, refusals = excluded.refusals, why = excluded.why,
    run_id = excluded.run_id, set_at = excluded.set_at, problem = excluded.problem, since = excluded.since

-- name: hold_forget
DELETE FROM provider_hold WHERE pool = :pool RETURNING until

-- name: holds_end
-- The count of refusals stays until a run succeeds. A missing login holds until a check finds one.
UPDATE provider_hold SET until = NULL WHERE until <= :now AND problem <> 'auth' RETURNING pool

-- name: hold_next_end
SELECT min(until) FROM provider_hold WHERE problem <> 'auth'

-- name: hold_next_check
SELECT min(until) FROM provider_hold WHERE problem = 'auth'

-- name: holds_shift
UPDATE provider_hold SET until = until - :back, set_at = set_at - :back WHERE until IS NOT NULL AND stated = 0

-- name: run_set_place
UPDATE live SET rank = :rank, position = :position WHERE run = (SELECT seq FROM run WHERE id = :id) AND state < 2

-- name: queue_front
-- The first runs of the whole queue, regardless of pools.
SELECT ready.lane_id, lane.key, ready.rank, ready.position, ready.created_at, ready.run
FROM (SELECT * FROM ready ORDER BY rank DESC, position, created_at, run LIMIT :limit) AS ready JOIN lane ON lane.id = ready.lane_id
ORDER BY ready.rank DESC, ready.position, ready.created_at, ready.run

-- name: order_ready
SELECT run.id FROM (SELECT * FROM ready ORDER BY rank DESC, position, created_at, run LIMIT :limit) AS ready JOIN run ON run.seq = ready.run
ORDER BY ready.rank DESC, ready.position, ready.created_at, ready.run

-- name: order_next_rank
-- The highest rank below one among the runs that may be claimed.
SELECT rank FROM ready WHERE rank < :rank ORDER BY rank DESC LIMIT 1

-- name: order_behind
-- The same towards the head of the queue: before a spot, nearest first.
SELECT position, created_at, run FROM queued WHERE rank = :rank AND (position, created_at, run) < (:position, :created_at, :run)
ORDER BY position DESC, created_at DESC, run DESC LIMIT :limit

-- name: order_ahead
-- Behind a spot within a rank, nearest first: what may be claimed and what waits.
SELECT position, created_at, run FROM queued WHERE rank = :rank AND (position, created_at, run) > (:position, :created_at, :run)
ORDER BY position, created_at, run LIMIT :limit

-- name: order_place
-- How many runs that may be claimed stand before a spot of a rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM ready WHERE rank > :rank
    UNION ALL
    SELECT 1 FROM ready WHERE rank = :rank AND (position, created_at, run) < (:position, :created_at, :run)
    LIMIT :limit) AS before

-- name: order_count_above
-- How many runs that may be claimed are of a higher rank, counted no further than the limit.
SELECT count(*) FROM (SELECT 1 FROM ready WHERE rank > :rank LIMIT :limit) AS above

-- name: order_count_ready
SELECT count(*) FROM (SELECT 1 FROM ready LIMIT :limit) AS counted

-- name: order_count_waiting
SELECT count(*) FROM (SELECT 1 FROM live WHERE state = 0 ORDER BY rank DESC, position, created_at, run LIMIT :limit) AS counted

-- name: order_waiting
SELECT run.id FROM live JOIN run ON run.seq = live.run WHERE live.state = 0
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit
