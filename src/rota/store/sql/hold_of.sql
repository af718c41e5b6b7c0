SELECT pool, until, stated, refusals, why, run_id, set_at FROM provider_hold WHERE pool = :pool
-- when writing: FOR NO KEY UPDATE
