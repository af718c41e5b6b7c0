SELECT id, name, (SELECT json_group_array(lock) FROM process INDEXED BY process_open WHERE worker_id = worker.id AND ended_at IS NULL)
FROM worker ORDER BY id
