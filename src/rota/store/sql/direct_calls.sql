-- name: direct_calls
-- Waiting and starting calls, oldest first.
SELECT direct_wait.*, job.name AS job, lane.key AS lane
FROM direct_wait JOIN lane ON lane.id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
ORDER BY direct_wait.turn
{{FOR NO KEY UPDATE OF direct_wait}}

-- name: direct_waiting
SELECT 1 FROM direct_wait WHERE slot IS NULL LIMIT 1

-- name: direct_call
SELECT direct_wait.*, job.name AS job, lane.key AS lane
FROM direct_wait JOIN lane ON lane.id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.id = :id
{{FOR NO KEY UPDATE OF direct_wait}}

-- name: direct_dispatch
UPDATE direct_wait SET worker_id = :worker_id, slot = :slot, epoch = :epoch WHERE id = :id AND slot IS NULL

-- name: direct_release
UPDATE direct_wait SET worker_id = NULL, slot = NULL, epoch = NULL WHERE id = :id AND epoch = :epoch

-- name: direct_leave
-- The caller gives up, is gone, or its call starts; `epoch` is null while it waits.
DELETE FROM direct_wait WHERE id = :id AND epoch IS NOT DISTINCT FROM :epoch

-- name: direct_dismiss
DELETE FROM direct_wait WHERE slot IS NULL AND (CAST(:boot_id AS text) IS NULL OR boot_id = :boot_id)

-- name: direct_begin
INSERT INTO call (id, job_id, version, lane_id, params, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
VALUES (:id, :job_id, :version, :lane_id, :params, :caller, :worker_id, :slot, :epoch, :boot_id, :pid, :pid_start, :now)

-- name: direct_hold
INSERT INTO direct_hold (execution_id, epoch) VALUES (:id, :epoch)

-- name: direct_let_go
-- `epoch` null: the caller itself, which does not know the process of its call.
DELETE FROM direct_hold WHERE execution_id = :id AND (CAST(:epoch AS bigint) IS NULL OR epoch = :epoch)

-- name: direct_finish
UPDATE call SET finished_at = :finished_at, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE id = :id AND finished_at IS NULL
RETURNING job_id, version

-- name: direct_adopt
UPDATE direct_hold SET epoch = :epoch WHERE execution_id = :id AND epoch = :expected

-- name: direct_ask_cancel
UPDATE direct_hold SET cancel_requested_at = :now WHERE execution_id = :id AND cancel_requested_at IS NULL

-- name: direct_execution
SELECT call.*, NULL AS run_id, job.name AS job, direct_hold.epoch AS holder, direct_hold.cancel_requested_at
FROM call LEFT JOIN direct_hold ON direct_hold.execution_id = call.id LEFT JOIN job ON job.id = call.job_id
WHERE call.id = :id

-- name: direct_keep
-- A thread that outlives its call keeps slot and pools, as one of a run does.
INSERT INTO abandoned (run_id, lane_id, slot, epoch) SELECT id, lane_id, slot, :epoch FROM call WHERE id = :id
