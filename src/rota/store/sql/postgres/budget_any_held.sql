SELECT 1 FROM budget_entry WHERE settled IS NULL LIMIT 1
