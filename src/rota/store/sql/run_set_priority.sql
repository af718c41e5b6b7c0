UPDATE run SET priority = :priority, rank = :rank, position = :position WHERE id = :id AND status = 'QUEUED'
