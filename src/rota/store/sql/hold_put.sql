INSERT INTO provider_hold (pool, until, stated, refusals, why, run_id, set_at)
VALUES (:pool, :until, :stated, :refusals, :why, :run_id, :set_at)
ON CONFLICT (pool) DO UPDATE SET until = excluded.until, stated = excluded.stated, refusals = excluded.refusals, why = excluded.why,
    run_id = excluded.run_id, set_at = excluded.set_at
