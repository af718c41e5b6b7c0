-- name: runs_in_backoff
SELECT run.id, run.number, run.params, run.chain_id FROM live JOIN run ON run.seq = live.run
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND live.state = 0 AND live.waiting_for = 'backoff' AND run.group_id IS NULL ORDER BY live.run
{{FOR NO KEY UPDATE OF live}}

-- name: runs_backfilled
SELECT scheduled_for FROM run WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND trigger = 'backfill' AND scheduled_for >= :since AND scheduled_for < :until

-- name: runs_durations
-- How long the job's newest finished runs took, among its last thousand.
SELECT ended.finished_at - ended.started_at FROM (SELECT seq FROM run WHERE job = (SELECT seq FROM job WHERE id = :job_id) ORDER BY number DESC LIMIT 1000) AS newest
JOIN ended ON ended.run = newest.seq WHERE ended.started_at IS NOT NULL ORDER BY newest.seq DESC LIMIT :limit

-- name: groups_within
-- The runs of a group have no execution; they were under way from their beginning to the end of their last member.
SELECT ended.started_at, ended.finished_at, job.name || ':' || run.number
FROM job JOIN ended ON ended.job = job.seq JOIN run ON run.seq = ended.run
WHERE job.id = :job_id AND ended.status IN (4, 5, 7) AND ended.finished_at > :since AND ended.started_at <= :until AND run.lane_id = 0
UNION ALL
SELECT live.started_at, NULL, job.name || ':' || run.number
FROM job JOIN live ON live.job = job.seq JOIN run ON run.seq = live.run
WHERE job.id = :job_id AND live.state = 3 AND live.started_at <= :until AND live.lane_id = 0
ORDER BY 1

-- name: executions_within
-- The executions of a job that overlap a time; a run that ended with its process does not count.
SELECT ended.started_at, ended.finished_at, job.name || ':' || run.number
FROM job JOIN ended ON ended.job = job.seq JOIN run ON run.seq = ended.run
WHERE job.id = :job_id AND ended.status IN (4, 5, 7) AND ended.finished_at >= :since AND ended.started_at <= :until AND ended.slot IS NOT NULL
  AND (ended.finished_at > :since OR ended.started_at >= :since) AND coalesce(ended.reason, '') NOT IN ('process_restarted', 'worker_lost')
UNION ALL
SELECT live.started_at, NULL, job.name || ':' || run.number
FROM job JOIN live ON live.job = job.seq JOIN run ON run.seq = live.run
WHERE job.id = :job_id AND live.state = 3 AND live.started_at <= :until AND live.slot IS NOT NULL
ORDER BY 1

-- name: executions_ended_since
SELECT ended.started_at, ended.finished_at, job.name || ':' || run.number
FROM job JOIN ended ON ended.job = job.seq JOIN run ON run.seq = ended.run
WHERE job.id = :job_id AND ended.status IN (4, 5, 7) AND ended.finished_at >= :since AND ended.started_at IS NOT NULL AND ended.slot IS NOT NULL
UNION ALL
SELECT live.started_at, NULL, job.name || ':' || run.number
FROM job JOIN live ON live.job = job.seq JOIN run ON run.seq = live.run WHERE job.id = :job_id AND live.state = 3 AND live.slot IS NOT NULL
UNION ALL
SELECT started_at, finished_at, id FROM call WHERE job_id = :job_id AND (finished_at IS NULL OR finished_at >= :since)
ORDER BY 1

-- name: runs_following
-- Only the line of overlap: the group orders its members.
SELECT run.id, job.id, run.version, run.trigger FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
WHERE live.predecessor_id = :id AND live.predecessor_id IS NOT NULL AND live.state = 0 AND run.group_id IS NULL ORDER BY live.run
{{FOR NO KEY UPDATE OF live}}

-- name: run_last_ahead
-- A retry has the place of its chain.
SELECT other.id
FROM run waiting JOIN live ON live.job = waiting.job JOIN run other ON other.seq = live.run AND other.seq <> waiting.seq
LEFT JOIN run root ON root.id = other.chain_id
WHERE waiting.id = :id AND coalesce(root.number, other.number) < waiting.number
ORDER BY coalesce(root.number, other.number) DESC LIMIT 1

-- name: runs_replacing
SELECT run.id FROM live JOIN run ON run.seq = live.run
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND live.state = 0 AND live.waiting_for = 'replaced_run' ORDER BY live.run
{{FOR NO KEY UPDATE OF live}}

-- name: runs_relink_followers
UPDATE live SET predecessor_id = :successor_id WHERE predecessor_id = :id AND predecessor_id IS NOT NULL AND state = 0

-- name: chain_begun
SELECT first.trigger, (SELECT min(coalesce(ended.started_at, live.started_at)) FROM run LEFT JOIN live ON live.run = run.seq
    LEFT JOIN ended ON ended.run = run.seq WHERE run.id = :id OR run.chain_id = :id)
FROM run AS first WHERE first.id = :id

-- name: chain_scheduled_unfinished
SELECT run.id FROM live JOIN run ON run.seq = live.run LEFT JOIN run root ON root.id = run.chain_id
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND coalesce(root.trigger, run.trigger) = 'schedule' LIMIT 1

-- name: run_unfinished_before
SELECT run FROM live WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND run < (SELECT seq FROM run WHERE id = :id) LIMIT 1

-- name: run_is_unfinished
SELECT run FROM live WHERE run = (SELECT seq FROM run WHERE id = :id)

-- name: run_relink
UPDATE live SET predecessor_id = :predecessor_id WHERE run = (SELECT seq FROM run WHERE id = :id) AND state < 2

-- name: jobs_newest_run
-- When the newest run of each job was made, for jobs that have one.
SELECT job.id, (SELECT created_at FROM run WHERE run.job = job.seq ORDER BY number DESC LIMIT 1) FROM job WHERE retired_at IS NULL

-- name: jobs_striking
-- Jobs with a run among the newest that may need attention.
SELECT job.id FROM job
WHERE job.retired_at IS NULL AND EXISTS (
    SELECT 1 FROM (SELECT seq FROM run WHERE run.job = job.seq ORDER BY number DESC LIMIT :newest) AS last JOIN ended ON ended.run = last.seq
    WHERE ended.status = 5 OR ended.reason IN ('missed', 'condition_error', 'expired')
)

-- name: timeline_runs
SELECT run.number, run.status, run.reason, run.count, run.scheduled_for, run.covers_to, run.created_at, run.started_at, run.finished_at
FROM run AS own JOIN run_now AS run ON run.seq = own.seq
WHERE own.job = (SELECT seq FROM job WHERE id = :job_id) ORDER BY own.number DESC LIMIT :limit

-- name: timeline_counts
-- The index ended_pruning has all that is asked for; the newest ones count, so that it never reads without end.
SELECT finished_at / :width, count(*), min(finished_at), max(finished_at)
FROM (
    SELECT finished_at FROM ended WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND status = :status AND finished_at >= :since
    ORDER BY finished_at DESC LIMIT :limit
) AS newest
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

-- name: runs_newest
SELECT run.* FROM run AS own JOIN run_now AS run ON run.seq = own.seq
WHERE own.job = (SELECT seq FROM job WHERE id = :job_id) ORDER BY own.number DESC LIMIT :limit OFFSET :offset

-- name: runs_unfinished
SELECT run.* FROM live JOIN run_now AS run ON run.seq = live.run WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) ORDER BY live.run

-- name: runs_unfinished_some
-- What runs of a job, and the oldest of what is queued: a queue may be long.
SELECT run.* FROM run_now AS run
WHERE run.seq IN (
    SELECT run FROM live WHERE state >= 2 AND job = (SELECT seq FROM job WHERE id = :job_id)
    UNION
    SELECT run FROM (SELECT run FROM live WHERE job = (SELECT seq FROM job WHERE id = :job_id) ORDER BY run LIMIT :limit) AS oldest)
ORDER BY run.seq

-- name: runs_running
-- The plus keeps the order from choosing the index: what runs is read and sorted, not all that is queued.
SELECT run.* FROM live JOIN run_now AS run ON run.seq = live.run WHERE live.state >= 2 ORDER BY +live.run

-- name: runs_of_all_unfinished
SELECT run.* FROM live JOIN run_now AS run ON run.seq = live.run
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit

-- name: runs_of_chain
SELECT run.* FROM run_now AS run
WHERE run.seq IN (SELECT seq FROM run WHERE id = :id UNION ALL SELECT seq FROM run WHERE chain_id = :id AND chain_id IS NOT NULL) ORDER BY run.attempt

-- name: run_retried_as
SELECT run.* FROM run_now AS run WHERE run.retry_of = :id AND run.trigger = 'retry'

-- name: run_last_backfill
-- Of the last chain that a backfill began: the run that is not final, which may be a retry.
SELECT run.id FROM live JOIN run ON run.seq = live.run LEFT JOIN run root ON root.id = run.chain_id
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND coalesce(root.trigger, run.trigger) = 'backfill'
ORDER BY coalesce(run.chain_id, run.id) DESC, run.id DESC LIMIT 1

-- name: result_save
INSERT INTO result (run, text, at) SELECT seq, CAST(:text AS text), CAST(:now AS bigint) FROM run WHERE id = :run_id ON CONFLICT DO NOTHING

-- name: result_of_run
SELECT result.text FROM result JOIN run ON run.seq = result.run WHERE run.id = :run_id

-- name: result_of_job
SELECT coalesce(result.text, ended.result_summary)
FROM job JOIN ended ON ended.job = job.seq JOIN run ON run.seq = ended.run LEFT JOIN result ON result.run = ended.run
WHERE job.name = :name AND ended.status = 4 ORDER BY ended.finished_at DESC, run.number DESC LIMIT 1

-- name: result_of_member
SELECT coalesce(result.text, ended.result_summary)
FROM run JOIN job ON job.seq = run.job JOIN ended ON ended.run = run.seq LEFT JOIN result ON result.run = ended.run
WHERE run.group_id = :group_id AND job.name = :name AND ended.status = 4 ORDER BY run.number DESC LIMIT 1

-- name: result_old
SELECT 1 FROM result WHERE at < :before LIMIT 1

-- name: run_neighbours
-- The numbers beside a run of a job: pruned ones are left out.
SELECT (SELECT max(number) FROM run WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND number < :number),
    (SELECT min(number) FROM run WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND number > :number)
