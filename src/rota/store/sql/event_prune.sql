-- Identifiers grow with time, so that the oldest are found without looking at the others.
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE id < :before ORDER BY id LIMIT :limit)
