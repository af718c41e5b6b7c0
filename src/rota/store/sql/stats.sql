-- name: stat_delta_add
INSERT INTO stat_delta (ends) VALUES (:ends)

-- name: stat_delta_all
SELECT ends FROM stat_delta

-- name: stat_of_job
-- The cells of one job, 0 for the sum of all, oldest first.
SELECT since, tally FROM stat WHERE span = :span AND job = :job AND since >= :since AND since < :until ORDER BY since

-- name: stat_seqs
SELECT id, seq FROM job

-- name: stat_jobs
-- A job keeps its place while it exists.
SELECT id, name FROM job ORDER BY made_by IS NOT NULL, seq LIMIT :limit

-- name: stat_prune
DELETE FROM stat WHERE span = :span AND job = :job AND since < :before

-- name: stat_has_before
SELECT 1 FROM stat WHERE span = :span AND job = 0 AND since < :before LIMIT 1

-- name: stat_newest_end
-- The newest end before an instant, of a run or a direct call.
SELECT max(found) FROM (
    SELECT (SELECT max(finished_at) FROM ended WHERE ended.job = job.seq AND ended.status = state.status AND finished_at < :before) AS found
    FROM job CROSS JOIN (SELECT 4 AS status UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7) AS state
    UNION ALL SELECT max(finished_at) FROM call WHERE finished_at < :before) AS ends

-- name: stat_clear
DELETE FROM stat WHERE span = :span AND since = :since

-- name: stat_cells
-- Cells of a time with what retention removed from them; no job: the sum of all.
SELECT coalesce(job.id, ''), stat.since, stat.tally, stat.pruned FROM stat LEFT JOIN job ON job.seq = stat.job
WHERE stat.span = :span AND stat.since >= :since AND stat.since < :until

-- name: stat_ends
-- The runs that ended in a time.
SELECT job.id, run.trigger, run.scheduled_for, run.created_at, ended.first_dispatched_at, ended.started_at,
    CASE WHEN run.covers_to IS NULL THEN 1 ELSE run.count END, run.version, ended.status, ended.reason, ended.finished_at,
    CASE WHEN ended.artifacts LIKE '%"usage"%' THEN ended.artifacts END
FROM job CROSS JOIN ended CROSS JOIN run
WHERE ended.job = job.seq AND ended.status IN (4, 5, 6, 7) AND ended.finished_at >= :since AND ended.finished_at < :until AND run.seq = ended.run

-- name: stat_calls
-- The direct calls that ended in a time.
SELECT job_id, version, finished_at, artifacts FROM call WHERE finished_at >= :since AND finished_at < :until

-- name: stat_days
SELECT DISTINCT since FROM stat WHERE span = 86400000 AND since >= :since

-- name: audit_job_names
SELECT id, name FROM job

-- name: run_cost_top
-- The most expensive runs of a time.
SELECT run.id, run_cost.usd FROM run_cost JOIN run ON run.seq = run_cost.run
WHERE run_cost.finished_at >= :since AND run_cost.finished_at < :until ORDER BY run_cost.usd DESC, run_cost.run DESC LIMIT :limit

-- name: run_cost_top_of_job
SELECT run.id, run_cost.usd FROM run_cost JOIN run ON run.seq = run_cost.run
WHERE run_cost.job = :job AND run_cost.finished_at >= :since AND run_cost.finished_at < :until
ORDER BY run_cost.usd DESC, run_cost.run DESC LIMIT :limit
