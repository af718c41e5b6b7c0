DELETE FROM deadline WHERE run_id = :run_id RETURNING at
