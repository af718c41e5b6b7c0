-- Who came back after its lease was over and a newer rota had upgraded the database is not alive in it.
UPDATE process SET lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + :lease WHERE epoch = :epoch AND ended_at IS NULL
    AND (SELECT max(number) FROM migration) <= :schema
RETURNING lease_until
