SELECT * FROM run_group WHERE run_id = :run_id
