SELECT id FROM run WHERE status = 'QUEUED' AND waiting_for IS NOT NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit
