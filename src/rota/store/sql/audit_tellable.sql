-- The runs of a job that is told of, with what its chain began as, and whether it was tried again.
SELECT run.number, run.status, coalesce(begun.id, run.id), coalesce(begun.trigger, run.trigger), run.scheduled_for,
    run.created_at, run.finished_at, run.decisions,
    EXISTS (SELECT 1 FROM run AS later WHERE later.retry_of = run.id AND later.trigger = 'retry')
FROM run LEFT JOIN run AS begun ON begun.id = run.chain_id
WHERE run.job_id = :job_id AND run.number > :after
ORDER BY run.number LIMIT :limit
