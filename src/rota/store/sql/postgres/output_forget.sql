DELETE FROM output WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
