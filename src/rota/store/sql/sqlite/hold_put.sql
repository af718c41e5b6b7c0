INSERT OR REPLACE INTO provider_hold (pool, until, stated, refusals, why, run_id, set_at)
VALUES (:pool, :until, :stated, :refusals, :why, :run_id, :set_at)
