SELECT id, name, labels, host, state, draining, created_at FROM worker WHERE id = :id
