-- name: abandoned_insert
INSERT INTO abandoned (run_id, lane_id, slot, epoch)
SELECT run.id, run.lane_id, ended.slot, ended.epoch FROM run JOIN ended ON ended.run = run.seq WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))

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

-- name: run_candidates
-- The first claimable runs of a lane, in queue order. A limit that the planner does not see: it would make a plan
-- for each.
SELECT run.id, job.id, run.version, run.number, job.name, run.trigger, run.scheduled_for, run.created_at, run.attempt, run.params,
    live.expires_at, run.forced, job.state, live.run
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job
WHERE live.lane_id = :lane_id AND live.state = 1
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT (SELECT CAST(:free AS bigint))
{{FOR NO KEY UPDATE OF live SKIP LOCKED}}

-- name: run_passed_over
-- After a claim with too few runs: another transaction may unlock a run without a change, which wakes no claimer.
SELECT 1 FROM live WHERE lane_id = :lane_id AND state = 1 LIMIT 1

-- name: run_chosen
-- The runs to claim in the given order, locked until the commit. Runs that were taken or changed meanwhile are left out.
-- CASE hides the condition from the planner, which would read all that is queued, believing that to be next to nothing.
SELECT run.id, job.id, run.version, run.number, job.name, run.trigger, run.scheduled_for, run.created_at, run.attempt, run.params,
    live.expires_at, run.forced, job.state, live.run
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job
WHERE live.run = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST(:runs AS json)) AS bigint)))
  AND CASE WHEN live.state = 1 THEN true ELSE false END
ORDER BY array_position(ARRAY(SELECT CAST(json_array_elements_text(CAST(:runs AS json)) AS bigint)), live.run)
{{FOR NO KEY UPDATE OF live}}

-- name: runs_known
SELECT run.id, job.id, ended.finished_at FROM run JOIN job ON job.seq = run.job LEFT JOIN ended ON ended.run = run.seq WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
UNION ALL
SELECT id, job_id, finished_at FROM call WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))

-- name: runs_ending
SELECT run.id, live.state, live.cancel_reason FROM run JOIN live ON live.run = run.seq WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
{{ORDER BY live.run FOR NO KEY UPDATE OF live}}

-- name: runs_owned
-- What a process still holds when it ends, or left behind.
SELECT run.id, live.epoch, live.state, job.id, run.version, live.losses, live.cancel_requested_at, live.cancel_reason,
    CASE live.state WHEN 3 THEN coalesce(live.boot_id, process.boot_id) END, CASE live.state WHEN 3 THEN coalesce(live.pid, process.pid) END,
    CASE live.state WHEN 3 THEN coalesce(live.pid_start, process.pid_start) END
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job JOIN process ON process.epoch = live.epoch
WHERE live.state >= 2 AND live.epoch = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST(:epochs AS json)) AS bigint))) ORDER BY live.run

-- name: run_insert_many
-- Runs of one job that differ in params, instant and predecessor alone, in the order of the list.
INSERT INTO run (id, job, number, version, trigger, scheduled_for, lane_id, priority, params, forced, created_at)
SELECT value ->> 0, (SELECT seq FROM job WHERE id = :job_id), CAST(:first AS bigint) + key - 1, :version, :trigger, CAST(value ->> 2 AS bigint),
    :lane_id, :priority, coalesce(value ->> 1, :params), :forced, :created_at
FROM json_array_elements(CAST(:siblings AS json)) WITH ORDINALITY AS item (value, key) ORDER BY key
