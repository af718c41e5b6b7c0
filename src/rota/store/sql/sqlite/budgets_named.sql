SELECT name, unit, amount, per, timezone, policy, estimate, declared FROM budget
WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name
