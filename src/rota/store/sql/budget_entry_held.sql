SELECT reserved, spent FROM budget_entry WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL
-- when writing: FOR NO KEY UPDATE
