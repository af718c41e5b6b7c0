UPDATE job SET made_by = :made_by, made_at = :made_at, made_by_run = :run_id, depth = :depth, expires_at = :expires_at
WHERE id = :id
