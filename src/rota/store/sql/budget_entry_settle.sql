UPDATE budget_entry SET settled = :settled, measured = :measured, settled_at = :now
WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL
