SELECT job.name || ':' || run.number, run.finished_at, run.result_summary FROM run JOIN job ON job.id = run.job_id
WHERE run.job_id = :job_id AND run.status = 'COMPLETED' AND run.finished_at IS NOT NULL ORDER BY run.finished_at DESC, run.number DESC LIMIT 1
