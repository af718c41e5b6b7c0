INSERT INTO budget (name, unit, amount, per, timezone, policy, estimate, declared)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, 1 FROM json_each(:accounts) WHERE true
ON CONFLICT (name) DO UPDATE SET unit = excluded.unit, amount = excluded.amount, per = excluded.per, timezone = excluded.timezone,
    policy = excluded.policy, estimate = excluded.estimate, declared = 1
