SELECT max(id) FROM run
