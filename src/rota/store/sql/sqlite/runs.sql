-- name: abandoned_insert
INSERT INTO abandoned (run_id, lane_id, slot, epoch)
SELECT run.id, run.lane_id, ended.slot, ended.epoch
FROM json_each(:ids) AS item CROSS JOIN run ON run.id = item.value CROSS JOIN ended ON ended.run = run.seq

-- name: abandoned_forget
DELETE FROM abandoned WHERE epoch IN (SELECT value FROM json_each(:epochs)) RETURNING lane_id

-- name: counter_add
INSERT INTO counter (status, worker_id, count)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:counts) WHERE true
ON CONFLICT (status, worker_id, part) DO UPDATE SET count = count + excluded.count

-- name: run_end_facts
-- Whether any run holds a budget, and whether any holds a work item: as a rule none does, and ends need not look further.
SELECT EXISTS (SELECT 1 FROM budget_entry INDEXED BY budget_entry_open WHERE settled IS NULL), EXISTS (SELECT 1 FROM work_item WHERE ended_at IS NULL)

-- name: run_candidates
-- The first claimable runs of a lane, in queue order.
SELECT run.id, job.id, run.version, run.number, job.name, run.trigger, run.scheduled_for, run.created_at, run.attempt, run.params,
    live.expires_at, run.forced, job.state, live.run
FROM live CROSS JOIN run ON run.seq = live.run CROSS JOIN job ON job.seq = live.job
WHERE live.lane_id = :lane_id AND live.state = 1 AND live.lane_id > 0
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :free

-- name: run_passed_over
-- SQLite has no row locks.
SELECT 1 WHERE :lane_id IS NULL

-- name: run_chosen
-- Runs that are to be claimed, in the order in which they are named.
SELECT run.id, job.id, run.version, run.number, job.name, run.trigger, run.scheduled_for, run.created_at, run.attempt, run.params,
    live.expires_at, run.forced, job.state, live.run
FROM json_each(:runs) AS item CROSS JOIN live ON live.run = item.value CROSS JOIN run ON run.seq = live.run CROSS JOIN job ON job.seq = live.job
WHERE live.state = 1 ORDER BY item.key

-- name: runs_known
SELECT run.id, job.id, ended.finished_at FROM json_each(:ids) AS item CROSS JOIN run ON run.id = item.value JOIN job ON job.seq = run.job
LEFT JOIN ended ON ended.run = run.seq
UNION ALL
SELECT id, job_id, finished_at FROM call WHERE id IN (SELECT value FROM json_each(:ids))

-- name: runs_ending
SELECT run.id, live.state, live.cancel_reason
FROM json_each(:ids) AS item CROSS JOIN run ON run.id = item.value CROSS JOIN live ON live.run = run.seq

-- name: runs_owned
-- What a process still holds when it ends, or left behind.
SELECT run.id, live.epoch, live.state, job.id, run.version, live.losses, live.cancel_requested_at, live.cancel_reason,
    iif(live.state = 3, coalesce(live.boot_id, process.boot_id), NULL), iif(live.state = 3, coalesce(live.pid, process.pid), NULL),
    iif(live.state = 3, coalesce(live.pid_start, process.pid_start), NULL)
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job JOIN process ON process.epoch = live.epoch
WHERE live.state >= 2 AND live.epoch IN (SELECT value FROM json_each(:epochs)) ORDER BY +live.run

-- name: run_insert_many
-- Runs of one job that differ in params, instant and predecessor alone, in the order of the list.
INSERT INTO run (id, job, number, version, trigger, scheduled_for, lane_id, priority, params, forced, created_at)
SELECT item.value ->> 0, (SELECT seq FROM job WHERE id = :job_id), :first + item.key, :version, :trigger, item.value ->> 2, :lane_id, :priority,
    coalesce(item.value ->> 1, :params), :forced, :created_at
FROM json_each(:siblings) AS item
