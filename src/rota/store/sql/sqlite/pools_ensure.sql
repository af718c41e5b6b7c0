-- A pool that nobody declared has no room: its runs wait, and `explain` says for what.
INSERT INTO pool (name, capacity, declared) SELECT value ->> 0, 0, 0 FROM json_each(:draws) WHERE true
ON CONFLICT (name) DO NOTHING
