SELECT name, unit, amount, per, timezone, policy, estimate, declared FROM budget ORDER BY name
