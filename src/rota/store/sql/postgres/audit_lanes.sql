-- Each lane draws what its key says.
SELECT id, key, drawn FROM (
    SELECT lane.id, lane.key, coalesce(string_agg(lane_pool.pool || '=' || lane_pool.cost, ',' ORDER BY lane_pool.pool), '') AS drawn
    FROM lane LEFT JOIN lane_pool ON lane_pool.lane_id = lane.id GROUP BY lane.id) AS found
WHERE drawn <> CASE id WHEN 0 THEN '' ELSE key END
