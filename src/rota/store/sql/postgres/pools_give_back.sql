-- All pools are locked first, in the order of their names, as by those who take: who waits for one holds none of those behind it.
WITH held AS MATERIALIZED (SELECT name FROM pool ORDER BY name FOR NO KEY UPDATE OF pool),
item AS (
    SELECT lane_pool.pool AS name, CAST(sum(lane_pool.cost) AS bigint) AS cost
    FROM json_array_elements_text(CAST(:lanes AS json)) AS given (lane_id)
    JOIN lane_pool ON lane_pool.lane_id = CAST(given.lane_id AS bigint)
    WHERE EXISTS (SELECT 1 FROM held) GROUP BY lane_pool.pool)
UPDATE pool SET used = used - item.cost FROM item WHERE pool.name = item.name
