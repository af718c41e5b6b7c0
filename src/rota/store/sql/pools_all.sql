SELECT pool.name, pool.capacity, pool.used, pool.declared, hold.until FROM pool LEFT JOIN provider_hold AS hold ON hold.pool = pool.name
ORDER BY pool.name
