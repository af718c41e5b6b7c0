DELETE FROM budget_entry WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND settled IS NOT NULL
