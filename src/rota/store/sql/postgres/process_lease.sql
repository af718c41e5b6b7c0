UPDATE process SET lease_until = CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + :lease WHERE epoch = :epoch AND ended_at IS NULL
RETURNING lease_until
