UPDATE run SET epoch = :epoch WHERE id = :id AND status = 'RUNNING' AND epoch = :expected
