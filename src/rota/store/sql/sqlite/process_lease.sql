UPDATE process SET lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + :lease WHERE epoch = :epoch AND ended_at IS NULL
RETURNING lease_until
