UPDATE direct_wait SET worker_id = NULL, slot = NULL, epoch = NULL WHERE id = :id AND epoch = :epoch
