SELECT part, text FROM output WHERE run_id = :run_id AND part >= :after ORDER BY part LIMIT :limit
