SELECT run.id, run.place, run.always, run.status, run.reason, run.waiting_for, run.attempt, run.job_id, run.version, job.name, run.number,
    run.finished_at
FROM run JOIN job ON job.id = run.job_id
WHERE run.group_id = :group_id AND run.status IN ('FAILED', 'CANCELLED') AND run.always = 0 AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = run.group_id AND later.place = run.place AND later.attempt > run.attempt)
ORDER BY run.place LIMIT 1
