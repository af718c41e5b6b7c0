SELECT * FROM execution WHERE run_id = :run_id
