-- Direct calls (R-13): an execution without a run, and who carries it while it is unfinished.
SELECT * FROM (
    SELECT execution.id, job.name, CASE
        WHEN execution.finished_at IS NULL AND direct_hold.execution_id IS NULL THEN 'is unfinished, but nobody carries it'
        WHEN execution.finished_at IS NOT NULL AND direct_hold.execution_id IS NOT NULL THEN 'is finished, but somebody still carries it'
        WHEN execution.finished_at < execution.started_at - :slack THEN 'finished before it started'
        WHEN execution.version IS NOT NULL AND job_version.job_id IS NULL THEN 'executes version ' || execution.version || ', which is not there (INV-005)'
    END AS what
    FROM execution LEFT JOIN direct_hold ON direct_hold.execution_id = execution.id LEFT JOIN job ON job.id = execution.job_id
    LEFT JOIN job_version ON job_version.job_id = execution.job_id AND job_version.version = execution.version
    WHERE execution.run_id IS NULL AND (CAST(:jobs AS text) IS NULL OR execution.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
) AS found WHERE what IS NOT NULL LIMIT :limit
