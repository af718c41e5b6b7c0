SELECT name, run_number, highest FROM (
    SELECT job.name, job.run_number, (SELECT max(run.number) FROM run WHERE run.job_id = job.id) AS highest FROM job
    WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) AS found
WHERE highest > run_number LIMIT :limit
