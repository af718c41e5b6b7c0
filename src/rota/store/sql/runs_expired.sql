SELECT id FROM run WHERE status = 'QUEUED' AND expires_at <= :now ORDER BY expires_at LIMIT :limit
