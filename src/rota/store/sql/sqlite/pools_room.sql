-- Only pools with room: from a full one nobody takes, and nobody need be kept from it. That of a provider that is held is told as such (-1);
-- whether there is any is asked once. Nothing where no lane draws on pools.
SELECT name, capacity,
    iif((SELECT count(*) FROM provider_hold) AND EXISTS (SELECT 1 FROM provider_hold AS hold WHERE hold.pool = name AND hold.until IS NOT NULL),
        -1, capacity - used)
FROM pool WHERE used < capacity AND EXISTS (SELECT 1 FROM lane WHERE id > 1)
