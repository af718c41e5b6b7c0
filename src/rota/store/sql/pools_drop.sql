DELETE FROM pool WHERE declared = 0 AND used = 0 AND name NOT IN (SELECT pool FROM lane_pool)
