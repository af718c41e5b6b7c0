SELECT id, job_id, finished_at FROM run WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
UNION ALL
SELECT id, job_id, finished_at FROM execution WHERE run_id IS NULL AND id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
