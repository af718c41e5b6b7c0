-- A pool that nobody declared has no room: its runs wait, and `explain` says for what.
INSERT INTO pool (name, capacity, declared) SELECT value ->> 0, 0, 0 FROM json_array_elements(CAST(:draws AS json))
ON CONFLICT (name) DO NOTHING
