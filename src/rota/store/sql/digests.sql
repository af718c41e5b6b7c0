-- name: digest_counts
-- The ends of runs by job and status.
SELECT job.name, ended.status, count(*)
FROM job JOIN ended ON ended.job = job.seq AND ended.status IN (4, 5, 6, 7) AND ended.finished_at > :since AND ended.finished_at <= :until
GROUP BY job.name, ended.status ORDER BY job.name, ended.status

-- name: digest_failed
-- The newest failed runs that were not retried.
SELECT run.id
FROM job JOIN ended ON ended.job = job.seq AND ended.status = 5 AND ended.finished_at > :since AND ended.finished_at <= :until
JOIN run ON run.seq = ended.run
WHERE NOT EXISTS (SELECT 1 FROM run AS retried WHERE retried.retry_of = run.id AND retried.trigger = 'retry')
ORDER BY ended.finished_at DESC, run.seq DESC LIMIT :limit

-- name: digest_runs_of
-- The newest runs of a job that started.
SELECT run.id
FROM job JOIN ended ON ended.job = job.seq AND ended.status IN (4, 5, 7) AND ended.finished_at > :since AND ended.finished_at <= :until
JOIN run ON run.seq = ended.run
WHERE job.id = :job_id AND ended.started_at IS NOT NULL
ORDER BY ended.finished_at DESC, run.seq DESC LIMIT :limit
