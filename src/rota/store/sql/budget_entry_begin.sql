INSERT INTO budget_entry (run_id, window_id, budget, job_id, reserved, spent) VALUES (:run_id, :window_id, :budget, :job_id, 1, 1)
