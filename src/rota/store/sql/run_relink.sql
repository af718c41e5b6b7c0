UPDATE run SET predecessor_id = :predecessor_id WHERE id = :id AND status = 'QUEUED'
