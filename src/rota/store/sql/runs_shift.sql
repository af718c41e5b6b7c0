UPDATE run SET not_before = not_before - :back, expires_at = expires_at - :back
WHERE status = 'QUEUED' AND (not_before IS NOT NULL OR expires_at IS NOT NULL)
