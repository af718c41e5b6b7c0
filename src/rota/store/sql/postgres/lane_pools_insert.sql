INSERT INTO lane_pool (lane_id, pool, cost)
SELECT :lane_id, value ->> 0, CAST(value ->> 1 AS bigint) FROM json_array_elements(CAST(:draws AS json))
ON CONFLICT (lane_id, pool) DO NOTHING
