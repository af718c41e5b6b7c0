SELECT * FROM run_group WHERE id = :id
-- when writing: FOR NO KEY UPDATE
