SELECT id, name, labels, host, state, draining, created_at FROM worker ORDER BY id
