-- name: pools_declare
INSERT INTO pool (name, capacity) SELECT key, CAST(value AS bigint) FROM json_each_text(CAST(:pools AS json)) ORDER BY key COLLATE "C"
ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, declared = 1
WHERE pool.capacity <> excluded.capacity OR pool.declared = 0

-- name: pools_withdraw
UPDATE pool SET declared = 0 WHERE declared = 1 AND name NOT IN (SELECT json_object_keys(CAST(:pools AS json)))

-- name: pools_room
-- Only pools with room: a full pool admits no run. The pool of a held provider has the room -1.
-- Empty if no lane uses pools. A claim locks all pools in the order of their names until it has taken its room.
SELECT name, capacity,
    CASE WHEN EXISTS (SELECT 1 FROM provider_hold AS hold WHERE hold.pool = name AND hold.until IS NOT NULL) THEN -1 ELSE capacity - used END
FROM (
    SELECT name, capacity, used FROM pool WHERE EXISTS (SELECT 1 FROM lane WHERE id > 1) ORDER BY name
    {{FOR NO KEY UPDATE OF pool}}
) AS held
WHERE used < capacity

-- name: lane_heads
-- The heads of the lanes in order, each found by one step into the index: the cost grows with the lanes, not with the queued runs.
-- A lane with only full pools is left out: its runs cannot start.
SELECT lane.id, lane.key, head.rank, head.position, head.created_at, head.run
FROM lane CROSS JOIN LATERAL (
    SELECT live.rank, live.position, live.created_at, live.run FROM live WHERE live.lane_id = lane.id AND live.state = 1
    ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT 1) AS head
WHERE lane.id = 1 OR EXISTS (
    SELECT 1 FROM lane_pool JOIN pool ON pool.name = lane_pool.pool WHERE lane_pool.lane_id = lane.id AND pool.used < pool.capacity)
ORDER BY head.rank DESC, head.position, head.created_at, head.run

-- name: lane_front
-- The first runs of a lane.
SELECT rank, position, created_at, run FROM live WHERE lane_id = :lane_id AND state = 1
ORDER BY rank DESC, position, created_at, run LIMIT :limit

-- name: pool_holders
-- The current users of a pool: runs in slots, direct calls, and runs whose thread outlived them.
SELECT job.name || ':' || run.number
FROM live JOIN lane_pool ON lane_pool.lane_id = live.lane_id JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
WHERE live.state >= 2 AND lane_pool.pool = :pool
UNION ALL
SELECT coalesce(job.name || ':' || run.number, 'a direct call') || ' (abandoned)'
FROM abandoned JOIN lane_pool ON lane_pool.lane_id = abandoned.lane_id
LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.seq = run.job
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM direct_hold JOIN call ON call.id = direct_hold.execution_id
JOIN lane_pool ON lane_pool.lane_id = call.lane_id LEFT JOIN job ON job.id = call.job_id
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM direct_wait JOIN lane_pool ON lane_pool.lane_id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.slot IS NOT NULL AND lane_pool.pool = :pool

-- name: pools_give_back
-- All pools are locked first in the order of their names, as in a claim, so that no deadlock is possible.
WITH held AS MATERIALIZED (SELECT name FROM pool ORDER BY name FOR NO KEY UPDATE OF pool),
item AS (
    SELECT lane_pool.pool AS name, CAST(sum(lane_pool.cost) AS bigint) AS cost
    FROM json_array_elements_text(CAST(:lanes AS json)) AS given (lane_id)
    JOIN lane_pool ON lane_pool.lane_id = CAST(given.lane_id AS bigint)
    WHERE EXISTS (SELECT 1 FROM held) GROUP BY lane_pool.pool)
UPDATE pool SET used = used - item.cost FROM item WHERE pool.name = item.name

-- name: pools_ensure
-- An undeclared pool has no room: its runs wait, and `explain` names it.
INSERT INTO pool (name, capacity, declared) SELECT value ->> 0, 0, 0 FROM json_array_elements(CAST(:draws AS json))
ON CONFLICT (name) DO NOTHING

-- name: lane_pools_insert
INSERT INTO lane_pool (lane_id, pool, cost)
SELECT :lane_id, value ->> 0, CAST(value ->> 1 AS bigint) FROM json_array_elements(CAST(:draws AS json))
ON CONFLICT (lane_id, pool) DO NOTHING

-- name: runs_rank
UPDATE live SET rank = item.rank, position = item.position
FROM (
    SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS rank, CAST(value ->> 2 AS bigint) AS position
    FROM json_array_elements(CAST(:places AS json))) AS item JOIN run ON run.id = item.id
WHERE live.run = run.seq

-- name: order_at
-- The run that may be claimed and has so many before it, some not counted.
SELECT rank, position, created_at, run FROM ready WHERE run NOT IN (SELECT CAST(json_array_elements_text(CAST(:without AS json)) AS bigint))
ORDER BY rank DESC, position, created_at, run LIMIT 1 OFFSET :before

-- name: runs_by_ids
SELECT run.* FROM json_array_elements_text(CAST(:ids AS json)) WITH ORDINALITY AS item (value, key) JOIN run_now AS run ON run.id = item.value
ORDER BY item.key

-- name: runs_place
-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE live SET position = item.position
FROM (SELECT CAST(value ->> 0 AS bigint) AS run, CAST(value ->> 1 AS bigint) AS position FROM json_array_elements(CAST(:runs AS json))) AS item
WHERE live.run = item.run AND CASE WHEN live.state < 2 THEN true ELSE false END

-- name: hold_waiting
-- How many runs could be claimed but for the pool of their provider. The order keeps to the index, however many runs there are.
SELECT count(*) FROM (
    SELECT 1 FROM lane_pool CROSS JOIN LATERAL (
        SELECT 1 FROM live WHERE live.lane_id = lane_pool.lane_id AND live.state = 1
        ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit) AS ready
    WHERE lane_pool.pool = :pool LIMIT :limit) AS waiting
