-- DEC-001, DEC-007: an automatic retry follows a failed run of its chain, and is that run once more.
SELECT * FROM (
    SELECT job.name, run.number, CASE
        WHEN run.trigger <> 'retry' AND run.group_id IS NULL AND (run.attempt <> 1 OR run.chain_id IS NOT NULL) THEN 'is attempt ' || run.attempt || ', but no automatic retry'
        WHEN run.trigger <> 'retry' THEN NULL
        WHEN failed.id IS NULL THEN 'is an automatic retry of a run that is not there'
        WHEN failed.status <> 'FAILED' THEN 'is an automatic retry of a run that is ' || failed.status
        WHEN run.attempt <> failed.attempt + 1 THEN 'is attempt ' || run.attempt || ' after attempt ' || failed.attempt
        WHEN run.chain_id IS DISTINCT FROM coalesce(failed.chain_id, failed.id) THEN 'belongs to another chain than the run it retries'
        WHEN run.job_id <> failed.job_id OR run.version <> failed.version THEN 'has another definition than the run it retries (INV-005)'
        WHEN run.scheduled_for IS DISTINCT FROM failed.scheduled_for THEN 'is for another instant than the run it retries (R-05)'
        WHEN run.group_id IS DISTINCT FROM failed.group_id OR run.place IS DISTINCT FROM failed.place THEN 'has another place in its group than the run it retries'
        WHEN run.attempt - coalesce(CAST(CAST(run.decisions AS json) #>> '{retry,outages}' AS bigint), 0) > CAST(CAST(job_version.spec AS json) #>> '{retry,max_attempts}' AS bigint) THEN 'is attempt ' || run.attempt || ', more than its definition allows'
    END AS what
    FROM run JOIN job ON job.id = run.job_id
    JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    LEFT JOIN run failed ON failed.id = run.retry_of
    WHERE CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS found WHERE what IS NOT NULL LIMIT :limit
