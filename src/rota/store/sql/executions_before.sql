SELECT execution.started_at, execution.finished_at, job.name || ':' || run.number
FROM execution JOIN run ON run.id = execution.run_id JOIN job ON job.id = run.job_id
WHERE execution.job_id = :job_id AND execution.started_at < :since
  AND (run.reason IS NULL OR run.reason NOT IN ('process_restarted', 'worker_lost'))
ORDER BY execution.started_at DESC LIMIT :limit
