-- A run that is not final is the newest attempt at its place. Those that always run come last. CASE keeps PostgreSQL's planner to the group.
SELECT run.id, run.place, run.always, run.status, run.reason, run.waiting_for, run.attempt, run.job_id, run.version, job.name, run.number,
    run.finished_at
FROM run JOIN job ON job.id = run.job_id
WHERE run.group_id = :group_id AND CASE WHEN run.finished_at IS NULL THEN true ELSE false END
ORDER BY run.always, run.place LIMIT :limit
