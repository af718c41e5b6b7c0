SELECT * FROM (
    SELECT job.name, run.number, run.status, CASE
        WHEN execution.id IS NULL AND run.started_at IS NULL AND run.status NOT IN ('RUNNING', 'COMPLETED') THEN NULL
        WHEN run.lane_id = 0 AND execution.id IS NULL THEN NULL
        WHEN run.lane_id = 0 THEN 'but is a group''s and has an execution'
        WHEN execution.id IS NULL THEN 'but has no execution'
        WHEN run.started_at IS NULL THEN 'but never started and has an execution'
        WHEN execution.job_id <> run.job_id THEN 'but its execution belongs to another job'
        WHEN execution.started_at <> run.started_at THEN 'but its execution started at another time'
        WHEN execution.finished_at IS DISTINCT FROM run.finished_at THEN 'but its execution finished at another time'
        WHEN execution.finished_at IS NOT NULL AND execution.status IS DISTINCT FROM run.status THEN 'but its execution is ' || coalesce(execution.status, 'without a status')
    END AS what
    FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
    WHERE CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS found WHERE what IS NOT NULL LIMIT :limit
