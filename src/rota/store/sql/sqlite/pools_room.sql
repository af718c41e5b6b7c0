-- Only pools with room: from a full one nobody takes, and nobody need be kept from it. Nothing where no lane draws on pools.
SELECT name, capacity, capacity - used FROM pool WHERE used < capacity AND EXISTS (SELECT 1 FROM lane WHERE id > 1)
