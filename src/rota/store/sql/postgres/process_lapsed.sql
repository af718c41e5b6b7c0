-- Held against claims under this epoch, which share its key: either they see that it is over, or whoever ends it sees what they took.
SELECT 1 FROM process WHERE epoch = :epoch AND ended_at IS NULL AND (lease_until < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) OR :forced = 1)
-- when writing: FOR UPDATE
