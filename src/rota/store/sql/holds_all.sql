SELECT pool, until, stated, refusals, why, run_id, set_at FROM provider_hold ORDER BY pool
