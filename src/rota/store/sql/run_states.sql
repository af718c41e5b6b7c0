-- name: run_enqueue
-- The first state of a run: 1 ready, 0 if it waits for something, 3 if it is the run of a group that begins at once.
INSERT INTO live (run, job, state, waiting_for, not_before, expires_at, predecessor_id, lane_id, rank, position, created_at, started_at, decisions)
SELECT seq, job, :state, :waiting_for, :not_before, :expires_at, :predecessor_id, lane_id, :rank, :position, created_at, :started_at, :decisions
FROM run WHERE id = :id

-- name: run_skip
-- The end of a run that was never queued.
INSERT INTO ended (run, job, status, reason, finished_at, error, predecessor_id, decisions)
SELECT seq, job, 6, :reason, created_at, :error, :predecessor_id, :decisions FROM run WHERE id = :id

-- name: group_begin
UPDATE live SET state = 3, started_at = :now, waiting_for = NULL, not_before = NULL
WHERE run = (SELECT seq FROM run WHERE id = :id) AND state < 2 AND lane_id = 0

-- name: run_start
UPDATE live SET state = 3, started_at = :now, boot_id = :boot_id, pid = :pid, pid_start = :pid_start
WHERE run = (SELECT seq FROM run WHERE id = :id) AND state = 2 AND epoch = :epoch

-- name: run_release
UPDATE live SET state = CASE WHEN CAST(:waiting_for AS text) IS NULL THEN 1 ELSE 0 END, worker = NULL, slot = NULL, epoch = NULL,
    waiting_for = :waiting_for, not_before = :not_before, losses = losses + :lost
WHERE run = (SELECT seq FROM run WHERE id = :id) AND state = 2 AND epoch = :epoch
RETURNING lane_id, (SELECT process.worker_id FROM process WHERE process.epoch = :epoch)

-- name: run_let_go
-- A group's run, in lane 0, is never claimed.
UPDATE live SET state = 1, waiting_for = NULL, not_before = NULL
WHERE run = (SELECT seq FROM run WHERE id = :id) AND state < 2 AND lane_id <> 0

-- name: runs_polled
UPDATE live SET state = 1, waiting_for = NULL, not_before = NULL WHERE waiting_for = 'poll'
