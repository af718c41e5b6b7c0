UPDATE job SET run_number = run_number + 1 WHERE id = :id RETURNING run_number
