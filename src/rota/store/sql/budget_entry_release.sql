UPDATE budget_entry SET estimate = NULL, reserved = spent
WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL
