SELECT part, text FROM output WHERE run_id = :run_id ORDER BY part DESC LIMIT 1
