DELETE FROM run WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND finished_at IS NOT NULL
RETURNING status, worker_id
