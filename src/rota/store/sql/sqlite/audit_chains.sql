-- DEC-001, DEC-007: an automatic retry follows a failed run of its chain, and is that run once more.
SELECT * FROM (
    SELECT job.name, run.number, CASE
        WHEN run.trigger <> 'retry' AND run.group_id IS NULL AND (run.attempt <> 1 OR run.chain_id IS NOT NULL) THEN 'is attempt ' || run.attempt || ', but no automatic retry'
        WHEN run.trigger <> 'retry' THEN NULL
        WHEN failed.id IS NULL THEN 'is an automatic retry of a run that is not there'
        WHEN failed.status <> 'FAILED' THEN 'is an automatic retry of a run that is ' || failed.status
        WHEN run.attempt <> failed.attempt + 1 THEN 'is attempt ' || run.attempt || ' after attempt ' || failed.attempt
        WHEN run.chain_id IS NOT coalesce(failed.chain_id, failed.id) THEN 'belongs to another chain than the run it retries'
        WHEN run.job_id <> failed.job_id OR run.version <> failed.version THEN 'has another definition than the run it retries (INV-005)'
        WHEN run.scheduled_for IS NOT failed.scheduled_for THEN 'is for another instant than the run it retries (R-05)'
        WHEN run.group_id IS NOT failed.group_id OR run.place IS NOT failed.place THEN 'has another place in its group than the run it retries'
        WHEN run.attempt - coalesce(json_extract(run.decisions, '$.retry.outages'), 0) > json_extract(job_version.spec, '$.retry.max_attempts') THEN 'is attempt ' || run.attempt || ', more than its definition allows'
    END AS what
    FROM run JOIN job ON job.id = run.job_id
    JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    LEFT JOIN run failed ON failed.id = run.retry_of
    WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
) WHERE what IS NOT NULL LIMIT :limit
