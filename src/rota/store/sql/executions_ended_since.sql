SELECT execution.started_at, execution.finished_at, COALESCE(job.name || ':' || run.number, execution.id)
FROM execution LEFT JOIN run ON run.id = execution.run_id LEFT JOIN job ON job.id = run.job_id
WHERE execution.job_id = :job_id AND (execution.finished_at IS NULL OR execution.finished_at >= :since)
ORDER BY execution.started_at
