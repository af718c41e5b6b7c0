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

-- name: lane_heads
-- The heads of the lanes in order, each found by one step into the index: the cost grows with the lanes, not with the queued runs.
-- A lane with only full pools is left out: its runs cannot start.
SELECT lane.id, lane.key, live.rank, live.position, live.created_at, live.run
FROM lane JOIN live ON live.run = (
    SELECT head.run FROM live AS head WHERE head.lane_id = lane.id AND head.state = 1
    ORDER BY head.rank DESC, head.position, head.created_at, head.run LIMIT 1)
WHERE lane.id = 1 OR EXISTS (
    SELECT 1 FROM lane_pool JOIN pool ON pool.name = lane_pool.pool WHERE lane_pool.lane_id = lane.id AND pool.used < pool.capacity)
ORDER BY live.rank DESC, live.position, live.created_at, live.run

-- name: lane_front
-- The first runs of a lane.
SELECT rank, position, created_at, run FROM live INDEXED BY live_ready WHERE lane_id = :lane_id AND state = 1
ORDER BY rank DESC, position, created_at, run LIMIT :limit

-- name: pool_holders
-- The current users of a pool: runs in slots, direct calls, and runs whose thread outlived them.
SELECT job.name || ':' || run.number
FROM live INDEXED BY live_slot JOIN lane_pool ON lane_pool.lane_id = live.lane_id JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
WHERE live.state >= 2 AND lane_pool.pool = :pool
UNION ALL
SELECT coalesce(job.name || ':' || run.number, 'a direct call') || ' (abandoned)'
FROM abandoned JOIN lane_pool ON lane_pool.lane_id = abandoned.lane_id
LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.seq = run.job
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM call INDEXED BY call_slot JOIN lane_pool ON lane_pool.lane_id = call.lane_id LEFT JOIN job ON job.id = call.job_id
WHERE call.finished_at IS NULL AND lane_pool.pool = :pool
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
UPDATE live SET rank = item.rank, position = item.position
FROM (SELECT value ->> 0 AS id, value ->> 1 AS rank, value ->> 2 AS position FROM json_each(:places)) AS item JOIN run ON run.id = item.id
WHERE live.run = run.seq

-- name: runs_by_ids
SELECT run.* FROM json_each(:ids) AS item CROSS JOIN run_now AS run ON run.id = item.value ORDER BY item.key

-- name: runs_place
UPDATE live SET position = item.position
FROM (SELECT value ->> 0 AS run, value ->> 1 AS position FROM json_each(:runs)) AS item
WHERE live.run = item.run AND live.state < 2

-- name: hold_waiting
-- How many runs could be claimed but for the pool of their provider.
SELECT count(*) FROM (
    SELECT 1 FROM lane_pool CROSS JOIN live INDEXED BY live_ready ON live.lane_id = lane_pool.lane_id
    WHERE lane_pool.pool = :pool AND live.state = 1 LIMIT :limit)

-- name: order_at
-- The run that may be claimed and has so many before it, some not counted.
SELECT rank, position, created_at, run FROM ready WHERE run NOT IN (SELECT value FROM json_each(:without))
ORDER BY rank DESC, position, created_at, run LIMIT 1 OFFSET :before
