SELECT 1 FROM budget_window WHERE until < :before AND NOT EXISTS (
    SELECT 1 FROM budget_entry WHERE budget_entry.window_id = budget_window.id) LIMIT 1
