DELETE FROM budget_entry WHERE run_id IN (SELECT value FROM json_each(:ids)) AND settled IS NOT NULL
