-- name: abandoned_insert
INSERT INTO abandoned (run_id, lane_id, slot, epoch)
SELECT run.id, run.lane_id, run.slot, run.epoch
FROM json_array_elements_text(CAST(:ids AS json)) AS item (value) JOIN run ON run.id = item.value

-- name: abandoned_forget
DELETE FROM abandoned WHERE epoch = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST(:epochs AS json)) AS bigint))) RETURNING lane_id

-- name: counter_add
-- Each connection has its own parts, so that none waits for the commit of another.
INSERT INTO counter AS known (status, worker_id, part, count)
SELECT item ->> 0, item ->> 1, pg_backend_pid() % 256, CAST(item ->> 2 AS bigint) FROM json_array_elements(CAST(:counts AS json)) AS item
ON CONFLICT (status, worker_id, part) DO UPDATE SET count = known.count + excluded.count

-- name: run_end_facts
-- Whether any run holds a budget, and whether any holds a work item: as a rule none does, and ends need not look further.
SELECT EXISTS (SELECT 1 FROM budget_entry WHERE settled IS NULL), EXISTS (SELECT 1 FROM work_item WHERE ended_at IS NULL)

-- name: run_by_id
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id = :id
{{FOR NO KEY UPDATE OF run}}

-- name: run_by_number
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.number = :number
{{FOR NO KEY UPDATE OF run}}

-- name: run_candidates
-- The first claimable runs of a lane, in queue order. A limit that the planner does not see: it would make a plan
-- for each.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM run r
JOIN job ON job.id = r.job_id
WHERE r.lane_id = :lane_id AND r.status = 'QUEUED' AND r.waiting_for IS NULL AND r.lane_id > 0
ORDER BY r.rank DESC, r.position, r.created_at, r.id LIMIT (SELECT CAST(:free AS bigint))
{{FOR NO KEY UPDATE OF r SKIP LOCKED}}

-- name: run_passed_over
-- After a claim with too few runs: another transaction may unlock a run without a change, which wakes no claimer.
SELECT 1 FROM run WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL AND lane_id > 0 LIMIT 1

-- name: run_chosen
-- The runs to claim in the given order, locked until the commit. Runs that were taken or changed meanwhile are left out.
-- By identifier whatever the statistics say (= ANY instead of a join), and CASE hides the condition: the planner would read all that is
-- queued, or all runs of the few jobs, believing that to be next to nothing.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM run r JOIN job ON job.id = r.job_id
WHERE r.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
  AND CASE WHEN r.status = 'QUEUED' AND r.waiting_for IS NULL THEN true ELSE false END
ORDER BY array_position(ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))), CAST(r.id AS text))
{{FOR NO KEY UPDATE OF r}}

-- name: execution_insert
INSERT INTO execution (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
SELECT value ->> 0, value ->> 0, value ->> 1, :worker_id, CAST(value ->> 2 AS bigint), :epoch, :boot_id, :pid, :pid_start, :now
FROM jsonb_array_elements(CAST(:executions AS jsonb))

-- name: runs_known
SELECT id, job_id, finished_at FROM run WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
UNION ALL
SELECT id, job_id, finished_at FROM execution WHERE run_id IS NULL AND id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))

-- name: runs_ending
-- By identifier whatever the statistics say (= ANY instead of a join), and CASE hides the condition: the planner would read a short table, or
-- all that is queued, believing that to be next to nothing.
SELECT run.id, run.status, run.cancel_reason FROM run WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
    AND CASE WHEN run.finished_at IS NULL THEN true ELSE false END
{{ORDER BY run.id FOR NO KEY UPDATE OF run}}

-- name: execution_finish
-- = ANY: by its run, not by a look at all that are unfinished, which are those of every machine.
UPDATE execution SET finished_at = item.finished_at, status = item.status, exit_code = item.exit_code, error = item.error,
    artifacts = item.artifacts
FROM (SELECT value ->> 0 AS run_id, CAST(value ->> 1 AS bigint) AS finished_at, value ->> 2 AS status, CAST(value ->> 3 AS bigint) AS exit_code,
    value ->> 4 AS error, value ->> 5 AS artifacts FROM jsonb_array_elements(CAST(:executions AS jsonb))) AS item
WHERE execution.run_id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:executions AS jsonb))))
    AND execution.run_id = item.run_id AND execution.finished_at IS NULL

-- name: execution_finish_alike
UPDATE execution SET finished_at = :finished_at, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:run_ids AS jsonb)))) AND finished_at IS NULL

-- name: runs_owned
-- What a process still holds when it ends, or left behind.
SELECT run.id, run.epoch, run.status, run.job_id, run.version, run.losses, run.cancel_requested_at, run.cancel_reason,
    execution.boot_id, execution.pid, execution.pid_start
FROM run LEFT JOIN execution ON execution.run_id = run.id AND execution.finished_at IS NULL
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND run.epoch = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST(:epochs AS json)) AS bigint))) ORDER BY run.id

-- name: run_insert_many
-- Runs of one job that differ in params, instant and predecessor alone, in the order of the list.
INSERT INTO run (id, job_id, number, version, trigger, scheduled_for, status, waiting_for, expires_at, predecessor_id, lane_id, priority, rank,
    position, params, forced, created_at, decisions)
SELECT value ->> 0, :job_id, CAST(:first AS bigint) + key - 1, :version, :trigger, CAST(value ->> 2 AS bigint), 'QUEUED',
    CASE WHEN value ->> 3 IS NOT NULL THEN 'predecessor' END, :expires_at, value ->> 3, :lane_id, :priority, :rank,
    CAST(:position AS bigint) + (key - 1) * :gap, coalesce(value ->> 1, :params), :forced, :created_at, :decisions
FROM json_array_elements(CAST(:siblings AS json)) WITH ORDINALITY AS item (value, key) ORDER BY key
