-- The runs of a group have no execution; they were under way from their beginning to the end of their last member.
SELECT run.started_at, run.finished_at, job.name || ':' || run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.job_id = :job_id AND run.lane_id = 0 AND run.started_at <= :until AND (run.finished_at IS NULL OR run.finished_at > :since)
ORDER BY run.started_at
