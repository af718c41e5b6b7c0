SELECT 1 FROM process WHERE epoch = :epoch AND ended_at IS NULL AND (lease_until < CAST(unixepoch('subsec') * 1000 AS INTEGER) OR :forced = 1)
