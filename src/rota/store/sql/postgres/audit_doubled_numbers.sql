SELECT job.name, run.number, count(*) FROM run JOIN job ON job.id = run.job_id
WHERE CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
GROUP BY job.id, run.number HAVING count(*) > 1 LIMIT :limit
