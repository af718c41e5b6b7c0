INSERT INTO lane_pool (lane_id, pool, cost) SELECT :lane_id, value ->> 0, value ->> 1 FROM json_each(:draws) WHERE true
ON CONFLICT (lane_id, pool) DO NOTHING
