-- Only pools with room: from a full one nobody takes, and nobody need be kept from it. That of a provider that is held is told as such (-1).
-- Nothing where no lane draws on pools. Who claims holds all pools, locked in the order of their names, until he has drawn (R-03).
SELECT name, capacity,
    CASE WHEN EXISTS (SELECT 1 FROM provider_hold AS hold WHERE hold.pool = name AND hold.until IS NOT NULL) THEN -1 ELSE capacity - used END
FROM (
    SELECT name, capacity, used FROM pool WHERE EXISTS (SELECT 1 FROM lane WHERE id > 1) ORDER BY name
    -- when writing: FOR NO KEY UPDATE OF pool
) AS held
WHERE used < capacity
