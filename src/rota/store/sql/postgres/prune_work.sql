DELETE FROM work_item WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND told_at IS NOT NULL
