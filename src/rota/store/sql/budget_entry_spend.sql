UPDATE budget_entry SET spent = spent + 1, reserved = reserved + :extend
WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL
