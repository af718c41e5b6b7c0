SELECT * FROM run_group WHERE id = :id
