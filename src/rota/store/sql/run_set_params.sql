UPDATE run SET params = :params WHERE id = :id AND status = 'QUEUED'
