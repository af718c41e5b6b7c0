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

-- name: queue_front
-- The first runs of the whole queue, regardless of pools.
SELECT run.lane_id, lane.key, run.rank, run.position, run.created_at, run.id
FROM run JOIN lane ON lane.id = run.lane_id
WHERE run.status = 'QUEUED' AND run.waiting_for IS NULL AND run.number > 0
ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit

-- name: lane_heads
-- The heads of the lanes in order, each found by one step into the index: the cost grows with the lanes, not with the queued runs.
-- A lane with only full pools is left out: its runs cannot start.
SELECT lane.id, lane.key, head.rank, head.position, head.created_at, head.id
FROM lane CROSS JOIN LATERAL (
    SELECT run.rank, run.position, run.created_at, run.id FROM run
    WHERE run.lane_id = lane.id AND run.status = 'QUEUED' AND run.waiting_for IS NULL AND run.lane_id > 0
    ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT 1) AS head
WHERE lane.id = 1 OR EXISTS (
    SELECT 1 FROM lane_pool JOIN pool ON pool.name = lane_pool.pool WHERE lane_pool.lane_id = lane.id AND pool.used < pool.capacity)
ORDER BY head.rank DESC, head.position, head.created_at, head.id

-- name: lane_front
-- The first runs of a lane.
SELECT rank, position, created_at, id FROM run
WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL AND lane_id > 0
ORDER BY rank DESC, position, created_at, id LIMIT :limit

-- name: pool_holders
-- The current users of a pool: runs in slots, direct calls, and runs whose thread outlived them.
SELECT job.name || ':' || run.number
FROM run JOIN lane_pool ON lane_pool.lane_id = run.lane_id JOIN job ON job.id = run.job_id
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND lane_pool.pool = :pool
UNION ALL
SELECT coalesce(job.name || ':' || run.number, 'a direct call') || ' (abandoned)'
FROM abandoned JOIN lane_pool ON lane_pool.lane_id = abandoned.lane_id
LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.id = run.job_id
WHERE lane_pool.pool = :pool
UNION ALL
SELECT 'direct ' || coalesce(job.name, 'slot')
FROM direct_hold JOIN execution ON execution.id = direct_hold.execution_id
JOIN lane_pool ON lane_pool.lane_id = execution.lane_id LEFT JOIN job ON job.id = execution.job_id
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
UPDATE run SET rank = item.rank, position = item.position
FROM (
    SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS rank, CAST(value ->> 2 AS bigint) AS position
    FROM json_array_elements(CAST(:places AS json))) AS item
WHERE run.id = item.id

-- name: order_ready
SELECT id FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0
ORDER BY rank DESC, position, created_at, id LIMIT :limit

-- name: order_at
-- The run that may be claimed and has so many before it, some not counted.
SELECT rank, position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND id NOT IN (SELECT json_array_elements_text(CAST(:without AS json)))
ORDER BY rank DESC, position, created_at, id LIMIT 1 OFFSET :before

-- name: order_next_rank
-- The highest rank below one among the runs that may be claimed.
SELECT rank FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank < :rank ORDER BY rank DESC LIMIT 1

-- name: order_behind
-- The same towards the head of the queue: before a spot, nearest first.
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank = :rank AND (position, created_at, id) < (:position, :created_at, :id)
    ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit) AS ready
UNION ALL
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) < (:position, :created_at, :id)
    ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit) AS held
ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit

-- name: order_ahead
-- Behind a spot within a rank, nearest first: what may be claimed and what waits, each read no further than needed.
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
    ORDER BY position, created_at, id LIMIT :limit) AS ready
UNION ALL
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
    ORDER BY position, created_at, id LIMIT :limit) AS held
ORDER BY position, created_at, id LIMIT :limit

-- name: order_place
-- How many runs that may be claimed stand before a spot of a rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank > :rank
    UNION ALL
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank = :rank
        AND (position, created_at, id) < (:position, :created_at, :id)
    LIMIT :limit) AS before

-- name: order_count_above
-- How many runs that may be claimed are of a higher rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank > :rank
    ORDER BY rank DESC, position, created_at, id LIMIT :limit) AS above

-- name: order_count_ready
-- The order keeps to the index, however many runs there are.
SELECT count(*) FROM (
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 ORDER BY rank DESC, position, created_at, id LIMIT :limit) AS ready

-- name: order_count_waiting
SELECT count(*) FROM (
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NOT NULL ORDER BY rank DESC, position, created_at, id LIMIT :limit) AS waiting

-- name: order_waiting
SELECT id FROM run WHERE status = 'QUEUED' AND waiting_for IS NOT NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit

-- name: runs_by_ids
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM json_array_elements_text(CAST(:ids AS json)) WITH ORDINALITY AS item (value, key) JOIN run ON run.id = item.value JOIN job ON job.id = run.job_id
LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key

-- name: runs_place
-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE run SET position = item.position
FROM (SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS position FROM json_array_elements(CAST(:runs AS json))) AS item
WHERE run.id = item.id AND CASE WHEN run.status = 'QUEUED' THEN true ELSE false END

-- name: hold_waiting
-- How many runs could be claimed but for the pool of their provider. The order keeps to the index, however many runs there are.
SELECT count(*) FROM (
    SELECT 1 FROM lane_pool CROSS JOIN LATERAL (
        SELECT 1 FROM run WHERE run.lane_id = lane_pool.lane_id AND run.status = 'QUEUED' AND run.waiting_for IS NULL AND run.lane_id > 0
        ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit) AS ready
    WHERE lane_pool.pool = :pool LIMIT :limit) AS waiting
