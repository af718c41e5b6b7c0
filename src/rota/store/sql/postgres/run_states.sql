-- name: runs_let_go
-- Those that another node is letting go at the same time are left to it.
WITH due AS MATERIALIZED (SELECT run FROM live WHERE not_before IS NOT NULL AND not_before <= :now AND lane_id > 0 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE live SET state = 1, waiting_for = NULL, not_before = NULL WHERE run = ANY (ARRAY(SELECT run FROM due))

-- name: run_enqueue_many
INSERT INTO live (run, job, state, waiting_for, expires_at, predecessor_id, lane_id, rank, position, created_at, decisions)
SELECT run.seq, run.job, CASE WHEN value ->> 3 IS NULL THEN 1 ELSE 0 END, CASE WHEN value ->> 3 IS NOT NULL THEN 'predecessor' END,
    CAST(:expires_at AS bigint), value ->> 3, run.lane_id, CAST(:rank AS bigint), CAST(:position AS bigint) + (key - 1) * CAST(:gap AS bigint),
    run.created_at, CAST(:decisions AS text)
FROM json_array_elements(CAST(:siblings AS json)) WITH ORDINALITY AS item (value, key) JOIN run ON run.id = value ->> 0

-- name: run_claim
-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE live SET state = item.state, worker = (SELECT seq FROM worker WHERE id = :worker_id), slot = item.slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = item.started_at,
    pid = item.pid, pid_start = item.pid_start, boot_id = CASE WHEN item.pid IS NOT NULL THEN CAST(:boot_id AS text) END
FROM (
    SELECT CAST(value ->> 0 AS bigint) AS run, CAST(value ->> 1 AS bigint) AS slot, CAST(value ->> 2 AS bigint) AS state,
        CAST(value ->> 3 AS bigint) AS started_at, CAST(value ->> 4 AS bigint) AS pid, CAST(value ->> 5 AS bigint) AS pid_start
    FROM jsonb_array_elements(CAST(:runs AS jsonb))) AS item
WHERE live.run = ANY (ARRAY(SELECT CAST(value ->> 0 AS bigint) FROM jsonb_array_elements(CAST(:runs AS jsonb)))) AND live.run = item.run
    AND CASE WHEN live.state = 1 THEN true ELSE false END

-- name: runs_to_finish
-- The runs that are where they are expected, locked before they end. CASE hides the condition from the planner.
SELECT run.id, job.id, run.version, run.trigger, run.scheduled_for, live.started_at, live.predecessor_id, run.lane_id, run.attempt, run.chain_id,
    run.group_id, live.cancel_reason, (SELECT worker.id FROM worker WHERE worker.seq = live.worker),
    run.created_at, live.first_dispatched_at, CASE WHEN run.covers_to IS NULL THEN 1 ELSE run.count END
FROM run JOIN live ON live.run = run.seq JOIN job ON job.seq = run.job
WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
    AND CASE WHEN live.state BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint) AND live.epoch IS NOT DISTINCT FROM :epoch THEN true ELSE false END
{{ORDER BY live.run FOR NO KEY UPDATE OF live}}

-- name: run_finish_alike
-- Runs that end in one way, as most do that end together. The trigger ended_made takes them out of `live`.
INSERT INTO ended (run, job, status, reason, finished_at, exit_code, error, result_summary, artifacts,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions)
SELECT live.run, live.job, :status, :reason, :finished_at, :exit_code, :error, :summary, :artifacts,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions
FROM run JOIN live ON live.run = run.seq
WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
    AND CASE WHEN live.state BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint) AND live.epoch IS NOT DISTINCT FROM :epoch THEN true ELSE false END

-- name: run_finish
INSERT INTO ended (run, job, status, reason, finished_at, exit_code, error, result_summary, artifacts,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions)
SELECT live.run, live.job, CAST(value ->> 1 AS bigint), value ->> 2, CAST(value ->> 3 AS bigint), CAST(value ->> 4 AS bigint), value ->> 5,
    value ->> 6, value ->> 7, first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions
FROM jsonb_array_elements(CAST(:ends AS jsonb)) AS item (value) JOIN run ON run.id = value ->> 0 JOIN live ON live.run = run.seq
WHERE run.id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:ends AS jsonb))))
    AND CASE WHEN live.state BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint) AND live.epoch IS NOT DISTINCT FROM :epoch THEN true ELSE false END

-- name: group_let_go
UPDATE live SET state = 1, waiting_for = NULL, expires_at = item.expires_at
FROM (SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS expires_at FROM json_array_elements(CAST(:members AS json))) AS item
JOIN run ON run.id = item.id
WHERE live.run = run.seq AND CASE WHEN live.waiting_for = 'predecessor' AND live.lane_id > 0 THEN true ELSE false END
