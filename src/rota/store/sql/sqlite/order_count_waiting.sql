SELECT count(*) FROM (SELECT 1 FROM run INDEXED BY run_held WHERE status = 'QUEUED' AND waiting_for IS NOT NULL LIMIT :limit)
