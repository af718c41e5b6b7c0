DELETE FROM budget_entry WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL AND spent = 0
