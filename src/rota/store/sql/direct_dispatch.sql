UPDATE direct_wait SET worker_id = :worker_id, slot = :slot, epoch = :epoch WHERE id = :id AND slot IS NULL
