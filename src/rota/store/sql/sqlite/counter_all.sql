SELECT status, worker_id, count FROM counter
