SELECT 1 FROM output WHERE at < :before LIMIT 1
