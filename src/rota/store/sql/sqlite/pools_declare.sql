INSERT INTO pool (name, capacity) SELECT key, value FROM json_each(:pools) WHERE true
ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, declared = 1
WHERE capacity <> excluded.capacity OR declared = 0
