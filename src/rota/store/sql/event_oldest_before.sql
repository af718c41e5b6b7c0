SELECT id FROM event WHERE id < :before ORDER BY id LIMIT 1
