-- name: counter_all
SELECT status, worker_id, sum(count) FROM counter GROUP BY status, worker_id

-- name: abandoned_delete
DELETE FROM abandoned WHERE run_id = :run_id RETURNING lane_id

-- name: run_last_id
SELECT max(id) FROM run

-- name: run_handles
SELECT job.name || ':' || run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.job_id = (SELECT id FROM job WHERE name = :job) ORDER BY run.number DESC LIMIT :limit

-- name: run_by_handle
SELECT run.id FROM run JOIN job ON job.id = run.job_id WHERE job.name = :name AND run.number = :number

-- name: runs_shift
UPDATE run SET not_before = not_before - :back, expires_at = expires_at - :back
WHERE status = 'QUEUED' AND (not_before IS NOT NULL OR expires_at IS NOT NULL)

-- name: run_adopt
UPDATE run SET epoch = :epoch WHERE id = :id AND status = 'RUNNING' AND epoch = :expected

-- name: run_next_expiry
SELECT min(expires_at) FROM run WHERE status = 'QUEUED' AND expires_at IS NOT NULL

-- name: run_next_release
SELECT min(not_before) FROM run WHERE status = 'QUEUED' AND not_before IS NOT NULL

-- name: run_decisions
SELECT decisions FROM run WHERE id = :id AND finished_at IS NULL
{{FOR NO KEY UPDATE}}

-- name: run_note
UPDATE run SET decisions = :decisions WHERE id = :id AND finished_at IS NULL

-- name: run_ending
SELECT status, cancel_reason FROM run WHERE id = :id AND finished_at IS NULL
{{FOR NO KEY UPDATE}}

-- name: execution_by_run
SELECT * FROM execution WHERE run_id = :run_id

-- name: runs_expired
SELECT id FROM run WHERE status = 'QUEUED' AND expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: slots_taken
-- The slots of a worker that hold something, whichever process put it there: a run, a direct call that runs or is about to, a thread
-- that outlived its run. CROSS keeps the few calls before the many executions.
SELECT slot FROM run WHERE worker_id = :worker_id AND status IN ('DISPATCHED', 'RUNNING')
UNION ALL SELECT execution.slot FROM direct_hold CROSS JOIN execution
    WHERE execution.id = direct_hold.execution_id AND execution.worker_id = :worker_id
UNION ALL SELECT slot FROM direct_wait WHERE worker_id = :worker_id AND slot IS NOT NULL
UNION ALL SELECT abandoned.slot FROM abandoned JOIN process ON process.epoch = abandoned.epoch WHERE process.worker_id = :worker_id

-- name: run_ask_cancel
UPDATE run SET cancel_requested_at = :now, cancel_reason = :reason
WHERE id = :id AND status IN ('DISPATCHED', 'RUNNING') AND cancel_requested_at IS NULL

-- name: runs_cancelling
SELECT id, cancel_reason FROM run WHERE cancel_requested_at IS NOT NULL AND finished_at IS NULL AND epoch = :epoch

-- name: run_insert
INSERT INTO run (id, job_id, number, version, trigger, slot_key, scheduled_for, covers_to, count, status, reason, waiting_for, not_before,
    expires_at, predecessor_id, lane_id, priority, rank, position, params, attempt, retry_of, chain_id, group_id, place, always, forced,
    created_at, started_at, finished_at, error, decisions)
VALUES (:id, :job_id, :number, :version, :trigger, :slot_key, :scheduled_for, :covers_to, :count, :status, :reason, :waiting_for, :not_before,
    :expires_at, :predecessor_id, :lane_id, :priority, :rank, :position, :params, :attempt, :retry_of, :chain_id, :group_id, :place, :always,
    :forced, :created_at, :started_at, :finished_at, :error, :decisions)
