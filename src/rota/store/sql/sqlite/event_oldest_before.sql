SELECT id FROM event WHERE at < :before LIMIT 1
