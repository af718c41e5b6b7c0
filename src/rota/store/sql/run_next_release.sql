SELECT min(not_before) FROM run WHERE status = 'QUEUED' AND not_before IS NOT NULL
