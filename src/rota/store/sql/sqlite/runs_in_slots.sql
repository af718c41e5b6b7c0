SELECT slot FROM run WHERE worker_id = :worker_id AND status IN ('DISPATCHED', 'RUNNING')
