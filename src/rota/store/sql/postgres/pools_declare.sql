INSERT INTO pool (name, capacity) SELECT key, CAST(value AS bigint) FROM json_each_text(CAST(:pools AS json)) ORDER BY key COLLATE "C"
ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, declared = 1
WHERE pool.capacity <> excluded.capacity OR pool.declared = 0
