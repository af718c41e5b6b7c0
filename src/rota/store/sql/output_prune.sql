DELETE FROM output WHERE (run_id, part) IN (SELECT run_id, part FROM output WHERE at < :before ORDER BY at LIMIT :limit)
