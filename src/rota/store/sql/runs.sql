-- name: counter_all
SELECT status, worker_id, sum(count) FROM counter GROUP BY status, worker_id

-- name: abandoned_delete
DELETE FROM abandoned WHERE run_id = :run_id RETURNING lane_id

-- name: run_last_id
SELECT max(id) FROM run

-- name: run_handles
SELECT job.name || ':' || run.number FROM job JOIN run ON run.job = job.seq
WHERE job.name = :job ORDER BY run.number DESC LIMIT :limit

-- name: run_by_handle
SELECT run.id FROM job JOIN run ON run.job = job.seq WHERE job.name = :name AND run.number = :number

-- name: run_lock
{{SELECT 1 FROM live WHERE run = (SELECT seq FROM run WHERE id = :id) FOR NO KEY UPDATE}}

-- name: run_by_id
SELECT run.* FROM run_now AS run WHERE run.id = :id

-- name: run_by_number
SELECT run.* FROM run_now AS run WHERE run.job_id = :job_id AND run.number = :number

-- name: runs_shift
UPDATE live SET not_before = not_before - :back, expires_at = expires_at - :back
WHERE state < 2 AND (not_before IS NOT NULL OR expires_at IS NOT NULL)

-- name: run_adopt
UPDATE live SET epoch = :epoch, adopted_from = coalesce(adopted_from, epoch)
WHERE run = (SELECT seq FROM run WHERE id = :id) AND state = 3 AND epoch = :expected

-- name: run_next_expiry
SELECT min(expires_at) FROM live WHERE state < 2 AND expires_at IS NOT NULL

-- name: run_next_release
SELECT min(not_before) FROM live WHERE not_before IS NOT NULL

-- name: run_decisions
SELECT coalesce(decisions, '{}') FROM live WHERE run = (SELECT seq FROM run WHERE id = :id)
{{FOR NO KEY UPDATE}}

-- name: run_note_held
UPDATE live SET decisions = :decisions WHERE run = (SELECT seq FROM run WHERE id = :id) AND epoch = :epoch

-- name: run_note
UPDATE live SET decisions = :decisions WHERE run = (SELECT seq FROM run WHERE id = :id)

-- name: run_ending
SELECT state, cancel_reason FROM live WHERE run = (SELECT seq FROM run WHERE id = :id)
{{FOR NO KEY UPDATE}}

-- name: execution_by_run
SELECT * FROM execution WHERE run_id = :run_id

-- name: runs_expired
SELECT run.id FROM live JOIN run ON run.seq = live.run
WHERE live.state < 2 AND live.expires_at IS NOT NULL AND live.expires_at <= :now ORDER BY live.expires_at LIMIT :limit

-- name: slots_taken
-- The slots of a worker that hold something, whichever process put it there: a run, a direct call that runs or is about to, a thread
-- that outlived its run. CROSS keeps the few calls that are carried before all calls.
SELECT slot FROM live WHERE worker = (SELECT seq FROM worker WHERE id = :worker_id) AND state >= 2
UNION ALL SELECT call.slot FROM direct_hold CROSS JOIN call WHERE call.id = direct_hold.execution_id AND call.worker_id = :worker_id
UNION ALL SELECT slot FROM direct_wait WHERE worker_id = :worker_id AND slot IS NOT NULL
UNION ALL SELECT abandoned.slot FROM abandoned JOIN process ON process.epoch = abandoned.epoch WHERE process.worker_id = :worker_id

-- name: run_ask_cancel
UPDATE live SET cancel_requested_at = :now, cancel_reason = :reason
WHERE run = (SELECT seq FROM run WHERE id = :id) AND state >= 2 AND cancel_requested_at IS NULL

-- name: runs_cancelling
SELECT run.id, live.cancel_reason FROM live JOIN run ON run.seq = live.run
WHERE live.cancel_requested_at IS NOT NULL AND live.epoch = :epoch

-- name: run_insert
INSERT INTO run (id, job, number, version, trigger, slot_key, scheduled_for, covers_to, count, lane_id, priority, params, attempt, retry_of, chain_id,
    group_id, place, always, forced, created_at)
VALUES (:id, (SELECT seq FROM job WHERE id = :job_id), :number, :version, :trigger, :slot_key, :scheduled_for, :covers_to, :count, :lane_id,
    :priority, :params, :attempt, :retry_of, :chain_id, :group_id, :place, :always, :forced, :created_at)

-- name: run_by_seq
SELECT run.* FROM run_now AS run WHERE run.seq = :seq

-- name: runs_lock
-- The unfinished runs of a job, where a decision depends on them: the end of a run need not lock the job.
{{SELECT 1 FROM live WHERE job = (SELECT seq FROM job WHERE id = :job_id) ORDER BY run FOR NO KEY UPDATE}}

-- name: run_lock_number
{{SELECT 1 FROM live WHERE run = (SELECT seq FROM run WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND number = :number)
FOR NO KEY UPDATE}}
