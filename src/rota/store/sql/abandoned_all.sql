-- Runs and direct calls whose code still runs after their end, with the slot that it keeps.
SELECT abandoned.run_id, job.name, run.number, run.finished_at, abandoned.slot
FROM abandoned LEFT JOIN run ON run.id = abandoned.run_id LEFT JOIN job ON job.id = run.job_id
ORDER BY abandoned.run_id
