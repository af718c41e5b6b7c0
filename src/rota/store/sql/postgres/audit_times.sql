SELECT job.name, run.number, run.created_at, run.first_dispatched_at, run.started_at, run.finished_at
FROM run JOIN job ON job.id = run.job_id
WHERE (CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) AND (
    run.created_at > coalesce(run.first_dispatched_at, run.finished_at) + :slack
    OR run.first_dispatched_at > coalesce(run.started_at, run.finished_at) + :slack
    OR run.started_at > run.finished_at + :slack)
LIMIT :limit
