INSERT INTO budget_entry AS known (run_id, window_id, budget, job_id, estimate, reserved)
VALUES (:run_id, :window_id, :budget, :job_id, :estimate, :estimate)
ON CONFLICT (run_id, window_id) DO UPDATE SET estimate = excluded.estimate, reserved = known.reserved + excluded.reserved
