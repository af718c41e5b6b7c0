-- name: run_enqueue_many
INSERT INTO live (run, job, state, waiting_for, expires_at, predecessor_id, lane_id, rank, position, created_at, decisions)
SELECT run.seq, run.job, item.value ->> 3 IS NULL, iif(item.value ->> 3 IS NULL, NULL, 'predecessor'), :expires_at, item.value ->> 3, run.lane_id,
    :rank, :position + item.key * :gap, run.created_at, :decisions
FROM json_each(:siblings) AS item CROSS JOIN run ON run.id = item.value ->> 0

-- name: run_claim
UPDATE live SET state = item.state, worker = (SELECT seq FROM worker WHERE id = :worker_id), slot = item.slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = item.started_at,
    pid = item.pid, pid_start = item.pid_start, boot_id = iif(item.pid IS NULL, NULL, :boot_id)
FROM (
    SELECT value ->> 0 AS run, value ->> 1 AS slot, value ->> 2 AS state, value ->> 3 AS started_at, value ->> 4 AS pid, value ->> 5 AS pid_start
    FROM json_each(:runs)) AS item
WHERE live.run = item.run AND live.state = 1

-- name: runs_to_finish
-- The runs that are where they are expected, before they end.
SELECT run.id, job.id, run.version, run.trigger, run.scheduled_for, live.started_at, live.predecessor_id, run.lane_id, run.attempt, run.chain_id,
    run.group_id, live.cancel_reason, (SELECT id FROM worker WHERE seq = live.worker),
    run.created_at, live.first_dispatched_at, CASE WHEN run.covers_to IS NULL THEN 1 ELSE run.count END
FROM json_each(:ids) AS item CROSS JOIN run ON run.id = item.value CROSS JOIN live ON live.run = run.seq CROSS JOIN job ON job.seq = run.job
WHERE live.state BETWEEN :low AND :high AND live.epoch IS :epoch

-- name: run_finish_alike
-- Runs that end in one way, as most do that end together. The trigger ended_made takes them out of `live`.
INSERT INTO ended (run, job, status, reason, finished_at, exit_code, error, result_summary, artifacts,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions)
SELECT run, job, :status, :reason, :finished_at, :exit_code, :error, :summary, :artifacts,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions
FROM live WHERE run IN (SELECT run.seq FROM json_each(:ids) AS item CROSS JOIN run ON run.id = item.value)
    AND state BETWEEN :low AND :high AND epoch IS :epoch

-- name: run_finish
INSERT INTO ended (run, job, status, reason, finished_at, exit_code, error, result_summary, artifacts,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions)
SELECT live.run, live.job, item.value ->> 1, item.value ->> 2, item.value ->> 3, item.value ->> 4, item.value ->> 5, item.value ->> 6, item.value ->> 7,
    first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions
FROM json_each(:ends) AS item CROSS JOIN run ON run.id = item.value ->> 0 CROSS JOIN live ON live.run = run.seq
WHERE live.state BETWEEN :low AND :high AND live.epoch IS :epoch

-- name: group_let_go
UPDATE live SET state = 1, waiting_for = NULL, expires_at = item.expires_at
FROM (SELECT value ->> 0 AS id, value ->> 1 AS expires_at FROM json_each(:members)) AS item JOIN run ON run.id = item.id
WHERE live.run = run.seq AND live.waiting_for = 'predecessor' AND live.lane_id > 0

-- name: runs_let_go
UPDATE live SET state = 1, waiting_for = NULL, not_before = NULL WHERE not_before IS NOT NULL AND not_before <= :now AND lane_id > 0
