SELECT * FROM run_group WHERE run_id = :run_id
-- when writing: FOR NO KEY UPDATE
