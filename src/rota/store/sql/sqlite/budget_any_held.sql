SELECT 1 FROM budget_entry INDEXED BY budget_entry_open WHERE settled IS NULL LIMIT 1
