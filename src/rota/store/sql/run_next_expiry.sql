SELECT min(expires_at) FROM run WHERE status = 'QUEUED' AND expires_at IS NOT NULL
