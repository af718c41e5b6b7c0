-- Each lane draws what its key says.
SELECT lane.id, lane.key, coalesce(group_concat(lane_pool.pool || '=' || lane_pool.cost, ',' ORDER BY lane_pool.pool), '') AS drawn
FROM lane LEFT JOIN lane_pool ON lane_pool.lane_id = lane.id
GROUP BY lane.id HAVING drawn <> CASE lane.id WHEN 0 THEN '' ELSE lane.key END
