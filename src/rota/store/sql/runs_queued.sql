SELECT id, priority FROM run WHERE status = 'QUEUED' AND finished_at IS NULL
