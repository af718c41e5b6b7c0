SELECT id FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit
