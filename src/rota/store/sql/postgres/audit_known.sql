-- Whose tag a process may carry: runs by number, direct calls (number null) by the identifier of their execution.
SELECT run.id, job.name, run.number, run.status FROM run JOIN job ON job.id = run.job_id
WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
UNION ALL
SELECT execution.id, job.name, NULL, coalesce(execution.status, 'RUNNING')
FROM execution LEFT JOIN job ON job.id = execution.job_id
WHERE execution.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json)))) AND execution.run_id IS NULL
UNION ALL
SELECT direct_wait.id, job.name, NULL, 'DISPATCHED' FROM direct_wait LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json)))) AND direct_wait.slot IS NOT NULL
