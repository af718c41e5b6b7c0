UPDATE pool SET used = used - item.cost
FROM (SELECT lane_pool.pool AS name, sum(lane_pool.cost) AS cost FROM json_each(:lanes) AS given
    JOIN lane_pool ON lane_pool.lane_id = given.value GROUP BY lane_pool.pool) AS item
WHERE pool.name = item.name
