UPDATE deadline SET run_id = :run_id WHERE run_id = :failed
