SELECT name, unit, amount, per, timezone, policy, estimate, declared FROM budget
WHERE name = ANY (ARRAY(SELECT json_array_elements_text(CAST(:names AS json)))) ORDER BY name
