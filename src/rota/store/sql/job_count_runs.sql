UPDATE job SET run_number = run_number + :count WHERE id = :id RETURNING run_number
