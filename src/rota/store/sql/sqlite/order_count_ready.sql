SELECT count(*) FROM (SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL LIMIT :limit)
