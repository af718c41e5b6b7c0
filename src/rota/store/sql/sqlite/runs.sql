-- name: abandoned_insert
INSERT INTO abandoned (run_id, lane_id, slot, epoch)
SELECT run.id, run.lane_id, run.slot, run.epoch FROM json_each(:ids) AS item JOIN run ON run.id = item.value

-- name: abandoned_forget
DELETE FROM abandoned WHERE epoch IN (SELECT value FROM json_each(:epochs)) RETURNING lane_id

-- name: counter_add
INSERT INTO counter (status, worker_id, count)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:counts) WHERE true
ON CONFLICT (status, worker_id, part) DO UPDATE SET count = count + excluded.count

-- name: run_end_facts
-- Whether any run holds a budget, and whether any holds a work item: as a rule none does, and ends need not look further.
SELECT EXISTS (SELECT 1 FROM budget_entry INDEXED BY budget_entry_open WHERE settled IS NULL), EXISTS (SELECT 1 FROM work_item WHERE ended_at IS NULL)

-- name: run_by_id
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id = :id

-- name: run_by_number
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.number = :number

-- name: run_candidates
-- The first claimable runs of a lane, in queue order.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM run r
JOIN job ON job.id = r.job_id
WHERE r.lane_id = :lane_id AND r.status = 'QUEUED' AND r.waiting_for IS NULL AND r.lane_id > 0
ORDER BY r.rank DESC, r.position, r.created_at, r.id LIMIT :free

-- name: run_passed_over
-- SQLite has no row locks.
SELECT 1 WHERE :lane_id IS NULL

-- name: run_chosen
-- Runs that are to be claimed, in the order in which they are named.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM json_each(:ids) AS item CROSS JOIN run r ON r.id = item.value JOIN job ON job.id = r.job_id
WHERE r.status = 'QUEUED' AND r.waiting_for IS NULL ORDER BY item.key

-- name: execution_insert
INSERT INTO execution (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
SELECT value ->> 0, value ->> 0, value ->> 1, :worker_id, value ->> 2, :epoch, :boot_id, :pid, :pid_start, :now
FROM json_each(:executions)

-- name: runs_known
SELECT id, job_id, finished_at FROM run WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, job_id, finished_at FROM execution WHERE run_id IS NULL AND id IN (SELECT value FROM json_each(:ids))

-- name: runs_ending
SELECT run.id, run.status, run.cancel_reason FROM json_each(:ids) AS item JOIN run ON run.id = item.value WHERE run.finished_at IS NULL

-- name: execution_finish
UPDATE execution SET finished_at = item.finished_at, status = item.status, exit_code = item.exit_code, error = item.error,
    artifacts = item.artifacts
FROM (SELECT value ->> 0 AS run_id, value ->> 1 AS finished_at, value ->> 2 AS status, value ->> 3 AS exit_code, value ->> 4 AS error,
    value ->> 5 AS artifacts FROM json_each(:executions)) AS item
WHERE execution.run_id = item.run_id AND execution.finished_at IS NULL

-- name: execution_finish_alike
UPDATE execution SET finished_at = :finished_at, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE run_id IN (SELECT value FROM json_each(:run_ids)) AND finished_at IS NULL

-- name: runs_owned
-- What a process still holds when it ends, or left behind. The plus keeps the order from choosing the index: read what
-- is in slots and sort it, not the whole table in order.
SELECT run.id, run.epoch, run.status, run.job_id, run.version, run.losses, run.cancel_requested_at, run.cancel_reason,
    execution.boot_id, execution.pid, execution.pid_start
FROM run LEFT JOIN execution ON execution.run_id = run.id AND execution.finished_at IS NULL
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND run.epoch IN (SELECT value FROM json_each(:epochs)) ORDER BY +run.id

-- name: run_insert_many
-- Runs of one job that differ in params, instant and predecessor alone, in the order of the list.
INSERT INTO run (id, job_id, number, version, trigger, scheduled_for, status, waiting_for, expires_at, predecessor_id, lane_id, priority, rank,
    position, params, forced, created_at, decisions)
SELECT item.value ->> 0, :job_id, :first + item.key, :version, :trigger, item.value ->> 2, 'QUEUED',
    iif(item.value ->> 3 IS NULL, NULL, 'predecessor'), :expires_at, item.value ->> 3, :lane_id, :priority, :rank,
    :position + item.key * :gap, coalesce(item.value ->> 1, :params), :forced, :created_at, :decisions
FROM json_each(:siblings) AS item
