SELECT id FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0
ORDER BY rank DESC, position, created_at, id LIMIT :limit
