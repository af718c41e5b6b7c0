UPDATE run SET status = 'RUNNING', started_at = :now, waiting_for = NULL, not_before = NULL
WHERE id = :id AND status = 'QUEUED' AND lane_id = 0
