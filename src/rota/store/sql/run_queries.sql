-- name: runs_in_backoff
SELECT id, number, params, chain_id FROM run WHERE job_id = :job_id AND waiting_for = 'backoff' AND group_id IS NULL ORDER BY id
{{FOR NO KEY UPDATE}}

-- name: runs_backfilled
SELECT scheduled_for FROM run WHERE job_id = :job_id AND trigger = 'backfill' AND scheduled_for >= :since AND scheduled_for < :until

-- name: runs_durations
-- How long the job's newest finished runs took, among its last thousand.
SELECT finished_at - started_at FROM (SELECT started_at, finished_at FROM run WHERE job_id = :job_id ORDER BY number DESC LIMIT 1000) AS newest
WHERE started_at IS NOT NULL AND finished_at IS NOT NULL LIMIT :limit

-- name: groups_within
-- The runs of a group have no execution; they were under way from their beginning to the end of their last member.
SELECT run.started_at, run.finished_at, job.name || ':' || run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.job_id = :job_id AND run.lane_id = 0 AND run.started_at <= :until AND (run.finished_at IS NULL OR run.finished_at > :since)
ORDER BY run.started_at

-- name: executions_before
SELECT execution.started_at, execution.finished_at, job.name || ':' || run.number
FROM execution JOIN run ON run.id = execution.run_id JOIN job ON job.id = run.job_id
WHERE execution.job_id = :job_id AND execution.started_at < :since
  AND (run.reason IS NULL OR run.reason NOT IN ('process_restarted', 'worker_lost'))
ORDER BY execution.started_at DESC LIMIT :limit

-- name: executions_within
SELECT execution.started_at, execution.finished_at, job.name || ':' || run.number
FROM execution JOIN run ON run.id = execution.run_id JOIN job ON job.id = run.job_id
WHERE execution.job_id = :job_id AND execution.started_at >= :since AND execution.started_at <= :until
  AND (run.reason IS NULL OR run.reason NOT IN ('process_restarted', 'worker_lost'))
ORDER BY execution.started_at

-- name: executions_ended_since
SELECT execution.started_at, execution.finished_at, COALESCE(job.name || ':' || run.number, execution.id)
FROM execution LEFT JOIN run ON run.id = execution.run_id LEFT JOIN job ON job.id = run.job_id
WHERE execution.job_id = :job_id AND (execution.finished_at IS NULL OR execution.finished_at >= :since)
ORDER BY execution.started_at

-- name: runs_following
-- Only the line of overlap: the group orders its members.
SELECT id, job_id, version, trigger FROM run WHERE predecessor_id = :id AND predecessor_id IS NOT NULL AND waiting_for IS NOT NULL AND group_id IS NULL ORDER BY id
{{FOR NO KEY UPDATE}}

-- name: run_last_ahead
-- A retry has the place of its chain.
SELECT other.id
FROM run waiting JOIN run other ON other.job_id = (SELECT job_id FROM run WHERE id = :id) AND other.finished_at IS NULL AND other.id <> waiting.id
LEFT JOIN run root ON root.id = other.chain_id
WHERE waiting.id = :id AND coalesce(root.number, other.number) < waiting.number
ORDER BY coalesce(root.number, other.number) DESC LIMIT 1

-- name: runs_replacing
SELECT id FROM run WHERE job_id = :job_id AND waiting_for IS NOT NULL AND waiting_for = 'replaced_run' ORDER BY id
{{FOR NO KEY UPDATE}}

-- name: runs_relink_followers
UPDATE run SET predecessor_id = :successor_id
WHERE predecessor_id = :id AND predecessor_id IS NOT NULL AND waiting_for IS NOT NULL

-- name: chain_begun
SELECT trigger, (SELECT min(started_at) FROM (
    SELECT started_at FROM run WHERE id = :id UNION ALL SELECT started_at FROM run WHERE chain_id = :id) AS chain)
FROM run WHERE id = :id

-- name: chain_scheduled_unfinished
SELECT run.id FROM run LEFT JOIN run root ON root.id = run.chain_id
WHERE run.job_id = :job_id AND run.finished_at IS NULL AND coalesce(root.trigger, run.trigger) = 'schedule' LIMIT 1

-- name: run_unfinished_before
SELECT id FROM run WHERE job_id = :job_id AND finished_at IS NULL AND id < :id LIMIT 1

-- name: run_is_unfinished
SELECT id FROM run WHERE id = :id AND finished_at IS NULL

-- name: run_relink
UPDATE run SET predecessor_id = :predecessor_id WHERE id = :id AND status = 'QUEUED'

-- name: run_let_go
-- A group's run, in lane 0, is never claimed.
UPDATE run SET waiting_for = NULL, not_before = NULL WHERE id = :id AND status = 'QUEUED' AND lane_id <> 0

-- name: jobs_newest_run
-- When the newest run of each job was made, for jobs that have one.
SELECT job.id, (SELECT created_at FROM run WHERE job_id = job.id ORDER BY number DESC LIMIT 1) FROM job WHERE retired_at IS NULL

-- name: jobs_striking
-- Jobs with a run among the newest that may need attention.
SELECT job.id FROM job
WHERE job.retired_at IS NULL AND EXISTS (
    SELECT 1 FROM (SELECT status, reason FROM run WHERE run.job_id = job.id ORDER BY number DESC LIMIT :newest) AS last
    WHERE last.status = 'FAILED' OR last.reason IN ('missed', 'condition_error', 'expired')
)

-- name: timeline_runs
SELECT number, status, reason, count, scheduled_for, covers_to, created_at, started_at, finished_at
FROM run WHERE job_id = :job_id ORDER BY number DESC LIMIT :limit

-- name: timeline_counts
-- The index run_pruning has all that is asked for; the newest ones count, so that it never reads without end.
SELECT finished_at / :width, count(*), min(finished_at), max(finished_at)
FROM (
    SELECT finished_at FROM run
    WHERE job_id = :job_id AND status = :status AND finished_at IS NOT NULL AND finished_at >= :since
    ORDER BY finished_at DESC LIMIT :limit
) AS ended
GROUP BY 1 ORDER BY 1

-- name: output_save
INSERT INTO output (run_id, part, text, at) VALUES (:run_id, :part, :text, :now) ON CONFLICT DO NOTHING

-- name: output_read
SELECT part, text FROM output WHERE run_id = :run_id AND part >= :after ORDER BY part LIMIT :limit

-- name: output_last
SELECT part, text FROM output WHERE run_id = :run_id ORDER BY part DESC LIMIT 1

-- name: output_old
SELECT 1 FROM output WHERE at < :before LIMIT 1

-- name: output_prune
DELETE FROM output WHERE (run_id, part) IN (SELECT run_id, part FROM output WHERE at < :before ORDER BY at LIMIT :limit)
