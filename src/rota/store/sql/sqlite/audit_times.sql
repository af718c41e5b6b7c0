SELECT job.name, run.number, run.created_at, run.first_dispatched_at, run.started_at, run.finished_at
FROM run JOIN job ON job.id = run.job_id
WHERE (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))) AND (
    run.created_at > coalesce(run.first_dispatched_at, run.finished_at) + :slack
    OR run.first_dispatched_at > coalesce(run.started_at, run.finished_at) + :slack
    OR run.started_at > run.finished_at + :slack)
LIMIT :limit
