UPDATE run SET waiting_for = NULL, not_before = NULL WHERE id = :id AND status = 'QUEUED'
