UPDATE run SET status = 'RUNNING', started_at = :now WHERE id = :id AND status = 'DISPATCHED' AND epoch = :epoch
