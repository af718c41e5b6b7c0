UPDATE run SET waiting_for = NULL, not_before = NULL WHERE status = 'QUEUED' AND not_before <= :now
