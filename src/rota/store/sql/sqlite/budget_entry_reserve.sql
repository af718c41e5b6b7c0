INSERT INTO budget_entry (run_id, window_id, budget, job_id, estimate, reserved)
VALUES (:run_id, :window_id, :budget, :job_id, :estimate, :estimate)
ON CONFLICT (run_id, window_id) DO UPDATE SET estimate = excluded.estimate, reserved = reserved + excluded.reserved
