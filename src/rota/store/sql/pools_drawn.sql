SELECT DISTINCT pool FROM lane_pool
