-- name: pools_declare
INSERT INTO pool (name, capacity) SELECT key, value FROM json_each(:pools) WHERE true
ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, declared = 1
WHERE capacity <> excluded.capacity OR declared = 0

-- name: pools_withdraw
UPDATE pool SET declared = 0 WHERE declared = 1 AND name NOT IN (SELECT key FROM json_each(:pools))

-- name: pools_room
-- Only pools with room: a full pool admits no run. The pool of a held provider has the room -1;
-- whether there is any is asked once. Nothing where no lane draws on pools.
SELECT name, capacity,
    iif((SELECT count(*) FROM provider_hold) AND EXISTS (SELECT 1 FROM provider_hold AS hold WHERE hold.pool = name AND hold.until IS NOT NULL),
        -1, capacity - used)
FROM pool WHERE used < capacity AND EXISTS (SELECT 1 FROM lane WHERE id > 1)

-- name: queue_front
-- The first runs of the whole queue, regardless of pools.
SELECT run.lane_id, lane.key, run.rank, run.position, run.created_at, run.id
FROM run INDEXED BY run_order CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.status = 'QUEUED' AND run.waiting_for IS NULL
ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit

-- name: lane_heads
-- The heads of the lanes in order, each found by one step into the index: the cost grows with the lanes, not with the queued runs.
-- A lane with only full pools is left out: its runs cannot start.
SELECT lane.id, lane.key, r.rank, r.position, r.created_at, r.id
FROM lane
JOIN run r ON r.rowid = (
    SELECT q.rowid FROM run q WHERE q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL
    ORDER BY q.rank DESC, q.position, q.created_at, q.id LIMIT 1)
WHERE lane.id = 1 OR EXISTS (
    SELECT 1 FROM lane_pool JOIN pool ON pool.name = lane_pool.pool WHERE lane_pool.lane_id = lane.id AND pool.used < pool.capacity)
ORDER BY r.rank DESC, r.position, r.created_at, r.id

-- name: lane_front
-- The first runs of a lane.
SELECT rank, position, created_at, id FROM run INDEXED BY run_ready
WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit

-- name: pool_holders
-- The current users of a pool: runs in slots, direct calls, and runs whose thread outlived them.
SELECT job.name || ':' || run.number
FROM run INDEXED BY run_slot JOIN lane_pool ON lane_pool.lane_id = run.lane_id JOIN job ON job.id = run.job_id
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND lane_pool.pool = :pool
UNION ALL
SELECT coalesce(job.name || ':' || run.number, 'a direct call') || ' (abandoned)'
FROM abandoned JOIN lane_pool ON lane_pool.lane_id = abandoned.lane_id
LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.id = run.job_id
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM execution INDEXED BY execution_slot JOIN lane_pool ON lane_pool.lane_id = execution.lane_id LEFT JOIN job ON job.id = execution.job_id
WHERE execution.finished_at IS NULL AND execution.run_id IS NULL AND lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM direct_wait JOIN lane_pool ON lane_pool.lane_id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.slot IS NOT NULL AND lane_pool.pool = :pool

-- name: pools_give_back
UPDATE pool SET used = used - item.cost
FROM (SELECT lane_pool.pool AS name, sum(lane_pool.cost) AS cost FROM json_each(:lanes) AS given
    JOIN lane_pool ON lane_pool.lane_id = given.value GROUP BY lane_pool.pool) AS item
WHERE pool.name = item.name

-- name: pools_ensure
-- An undeclared pool has no room: its runs wait, and `explain` names it.
INSERT INTO pool (name, capacity, declared) SELECT value ->> 0, 0, 0 FROM json_each(:draws) WHERE true
ON CONFLICT (name) DO NOTHING

-- name: lane_pools_insert
INSERT INTO lane_pool (lane_id, pool, cost) SELECT :lane_id, value ->> 0, value ->> 1 FROM json_each(:draws) WHERE true
ON CONFLICT (lane_id, pool) DO NOTHING

-- name: runs_rank
UPDATE run SET rank = item.rank, position = item.position
FROM (SELECT value ->> 0 AS id, value ->> 1 AS rank, value ->> 2 AS position FROM json_each(:places)) AS item
WHERE run.id = item.id

-- name: order_ready
SELECT id FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit

-- name: order_at
-- The run that may be claimed and has so many before it, some not counted.
SELECT rank, position, created_at, id FROM run INDEXED BY run_order
WHERE status = 'QUEUED' AND waiting_for IS NULL AND id NOT IN (SELECT value FROM json_each(:without))
ORDER BY rank DESC, position, created_at, id LIMIT 1 OFFSET :before

-- name: order_next_rank
-- The highest rank below one among the runs that may be claimed.
SELECT rank FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank < :rank ORDER BY rank DESC LIMIT 1

-- name: order_behind
-- The same towards the head of the queue: before a spot, nearest first.
SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank = :rank AND (position, created_at, id) < (:position, :created_at, :id)
UNION ALL
SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) < (:position, :created_at, :id)
ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit

-- name: order_ahead
-- Behind a spot within a rank, nearest first: what may be claimed and what waits, two indexes read side by side.
SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
UNION ALL
SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
ORDER BY position, created_at, id LIMIT :limit

-- name: order_place
-- How many runs that may be claimed stand before a spot of a rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank > :rank
    UNION ALL
    SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank = :rank
        AND (position, created_at, id) < (:position, :created_at, :id)
    LIMIT :limit)

-- name: order_count_above
-- How many runs that may be claimed are of a higher rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank > :rank LIMIT :limit)

-- name: order_count_ready
SELECT count(*) FROM (SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL LIMIT :limit)

-- name: order_count_waiting
SELECT count(*) FROM (SELECT 1 FROM run INDEXED BY run_held WHERE status = 'QUEUED' AND waiting_for IS NOT NULL LIMIT :limit)

-- name: order_waiting
SELECT id FROM run INDEXED BY run_held WHERE status = 'QUEUED' AND waiting_for IS NOT NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit

-- name: runs_by_ids
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM json_each(:ids) AS item JOIN run ON run.id = item.value JOIN job ON job.id = run.job_id
LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key

-- name: runs_place
UPDATE run SET position = item.position
FROM (SELECT value ->> 0 AS id, value ->> 1 AS position FROM json_each(:runs)) AS item
WHERE run.id = item.id AND run.status = 'QUEUED'

-- name: hold_waiting
-- How many runs could be claimed but for the pool of their provider.
SELECT count(*) FROM (
    SELECT 1 FROM lane_pool CROSS JOIN run INDEXED BY run_ready ON run.lane_id = lane_pool.lane_id
    WHERE lane_pool.pool = :pool AND run.status = 'QUEUED' AND run.waiting_for IS NULL LIMIT :limit)
