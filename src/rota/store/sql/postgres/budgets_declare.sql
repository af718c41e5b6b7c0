INSERT INTO budget (name, unit, amount, per, timezone, policy, estimate, declared)
SELECT item ->> 0, item ->> 1, CAST(item ->> 2 AS bigint), item ->> 3, item ->> 4, item ->> 5, CAST(item ->> 6 AS bigint), 1
FROM json_array_elements(CAST(:accounts AS json)) AS item ORDER BY 1
ON CONFLICT (name) DO UPDATE SET unit = excluded.unit, amount = excluded.amount, per = excluded.per, timezone = excluded.timezone,
    policy = excluded.policy, estimate = excluded.estimate, declared = 1
