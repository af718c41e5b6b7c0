SELECT count(*) FROM run WHERE CAST(:jobs AS text) IS NULL OR job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
