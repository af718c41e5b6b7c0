SELECT status, worker_id, sum(count) FROM counter GROUP BY status, worker_id
