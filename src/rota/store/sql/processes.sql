-- name: process_reuse
-- A tick that did nothing leaves its epoch to the next one of its folder: no row names it. What served since is newer.
UPDATE process SET kind = :kind, boot_id = :boot_id, pid = :pid, pid_start = :pid_start, lock = :lock, version = :version,
    clock_offset = :clock_offset, started_at = :now, ended_at = NULL, ending = NULL
WHERE epoch = :epoch AND worker_id = :worker_id AND ending = 'clean'
    AND epoch = (SELECT max(own.epoch) FROM process AS own WHERE own.worker_id = :worker_id)
    AND NOT EXISTS (SELECT 1 FROM process AS later WHERE later.epoch > :epoch AND later.kind <> 'tick')
RETURNING epoch

-- name: process_insert
INSERT INTO process (worker_id, kind, boot_id, pid, pid_start, lock, version, clock_offset, started_at)
VALUES (:worker_id, :kind, :boot_id, :pid, :pid_start, :lock, :version, :clock_offset, :now) RETURNING epoch

-- name: process_end
UPDATE process SET ended_at = :now, ending = :ending WHERE epoch = :epoch AND ended_at IS NULL

-- name: processes_unended
SELECT epoch, kind, boot_id, pid, pid_start, lock, started_at, worker_id, lease_until, version FROM process WHERE ended_at IS NULL ORDER BY epoch

-- name: processes_with_runs
-- Ended or not: a detached process has left runs and direct calls for the next one of its worker.
SELECT DISTINCT live.epoch, worker.id FROM live JOIN worker ON worker.seq = live.worker WHERE live.state >= 2
UNION SELECT direct_hold.epoch, process.worker_id FROM direct_hold JOIN process ON process.epoch = direct_hold.epoch
UNION SELECT epoch, worker_id FROM direct_wait WHERE slot IS NOT NULL

-- name: processes_lost_since
SELECT count(*) FROM process WHERE worker_id = :worker_id AND kind = :kind AND ending = 'lost' AND started_at >= :since AND epoch > :after

-- name: process_last_ended
SELECT coalesce(max(epoch), 0) FROM process WHERE ended_at IS NOT NULL

-- name: meta_delete
DELETE FROM meta WHERE key = :key

-- name: process_set_offset
UPDATE process SET clock_offset = :clock_offset WHERE epoch = :epoch

-- name: workers_all
SELECT id, name, labels, host, state, draining, created_at FROM worker ORDER BY id

-- name: remote_worker_seen
INSERT INTO remote_worker (name, id, registered_at, seen_at, lost_after) VALUES (:name, :id, :now, :now, :lost_after)
ON CONFLICT (name) DO UPDATE SET seen_at = :now, lost_after = :lost_after

-- name: worker_by_id
SELECT id, name, labels, host, state, draining, created_at FROM worker WHERE id = :id

-- name: remote_worker_forget
DELETE FROM remote_worker WHERE name = :name

-- name: worker_by_name
SELECT id, name, labels, host, state, draining, created_at FROM worker WHERE name = :name

-- name: process_last
SELECT epoch, kind, pid, started_at, ended_at, ending FROM process ORDER BY epoch DESC LIMIT :limit

-- name: worker_first
SELECT id FROM worker ORDER BY id LIMIT 1

-- name: remote_workers
SELECT name, id, registered_at, seen_at, lost_after FROM remote_worker ORDER BY name

-- name: process_last_offset
SELECT clock_offset FROM process WHERE boot_id = :boot_id AND clock_offset IS NOT NULL ORDER BY epoch DESC LIMIT 1

-- name: worker_seen
-- The end of a lost process is when others noticed; its last sign of life is the last renewal of its lease, or a start.
SELECT max(seen) FROM (
    SELECT CASE WHEN ended_at IS NULL OR ending = 'lost' THEN coalesce(lease_until - :lease, started_at) ELSE ended_at END AS seen
    FROM process WHERE worker_id = :worker_id
    UNION ALL
    SELECT started_at FROM live WHERE worker = (SELECT seq FROM worker WHERE id = :worker_id) AND state >= 2
    UNION ALL
    SELECT started_at FROM (SELECT started_at FROM ended WHERE worker = (SELECT seq FROM worker WHERE id = :worker_id) ORDER BY run DESC LIMIT 1) AS newest
    UNION ALL
    SELECT started_at FROM call WHERE worker_id = :worker_id
) AS signs

-- name: worker_update
UPDATE worker SET name = :name, labels = :labels, host = :host, state = :state WHERE id = :id

-- name: process_last_firing
SELECT boot_id, worker_id FROM process WHERE kind <> 'worker' ORDER BY epoch DESC LIMIT 1

-- name: worker_drain
UPDATE worker SET draining = :draining WHERE id = :id AND draining <> :draining

-- name: clock_newest_times
-- The newest times that earlier processes wrote, for the first process of a boot: it has no boot clock to compare with theirs.
SELECT process.started_at, process.ended_at,
    (SELECT created_at FROM run ORDER BY seq DESC LIMIT 1),
    (SELECT max(started_at) FROM live),
    (SELECT started_at FROM ended ORDER BY run DESC LIMIT 1),
    (SELECT finished_at FROM ended ORDER BY run DESC LIMIT 1),
    (SELECT started_at FROM call ORDER BY id DESC LIMIT 1),
    (SELECT finished_at FROM call ORDER BY id DESC LIMIT 1),
    (SELECT max(first_dispatched_at) FROM live)
FROM process ORDER BY epoch DESC LIMIT 1

-- name: turn_hold
{{INSERT INTO meta (key, value) VALUES (:key, '') ON CONFLICT (key) DO UPDATE SET value = ''}}

-- name: jobs_of_runs_hold
-- Also the jobs of all that such an end may lead on to: of the group that a run is a member of, of its other members (if they are not
-- too many), and of the members of a group that a run stands for. Groups first, then members, as in the creation of a group. OFFSET keeps the
-- planner to looking up one after the other.
{{WITH met AS MATERIALIZED (
    SELECT run.id, job.id AS job_id, run.group_id, run.lane_id FROM run JOIN job ON job.seq = run.job WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))),
whole AS MATERIALIZED (
    SELECT found.id, found.run_id, found.size FROM (SELECT DISTINCT group_id FROM met WHERE group_id IS NOT NULL) AS named
    CROSS JOIN LATERAL (SELECT id, run_id, size FROM run_group WHERE run_group.id = named.group_id OFFSET 0) AS found
    UNION ALL SELECT found.id, NULL, 0 FROM met
    CROSS JOIN LATERAL (SELECT id FROM run_group WHERE run_group.run_id = met.id AND met.lane_id = 0 OFFSET 0) AS found),
named AS (
    SELECT job_id, CASE lane_id WHEN 0 THEN 0 ELSE 1 END AS turn FROM met
    UNION ALL SELECT found.job_id, 0 FROM whole
    CROSS JOIN LATERAL (SELECT job.id AS job_id FROM run JOIN job ON job.seq = run.job WHERE run.id = whole.run_id OFFSET 0) AS found
    UNION ALL SELECT found.job_id, 1 FROM whole
    CROSS JOIN LATERAL (
        SELECT job.id AS job_id FROM run JOIN job ON job.seq = run.job WHERE run.group_id = whole.id AND whole.size <= 200 OFFSET 0) AS found)
SELECT job.id FROM job JOIN (SELECT job_id, min(turn) AS turn FROM named GROUP BY job_id) AS wanted ON wanted.job_id = job.id
ORDER BY wanted.turn, job.id FOR NO KEY UPDATE OF job}}

-- name: jobs_waited_for_hold
-- Those of these jobs with a waiting run or counted failures: the end of a run need not lock the others.
{{SELECT id FROM job WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
AND (failures > 0 OR EXISTS (
    SELECT 1 FROM live WHERE live.job = job.seq AND live.state = 0 AND live.waiting_for IN ('predecessor', 'replaced_run')))
ORDER BY id FOR NO KEY UPDATE}}

-- name: jobs_named_hold
{{SELECT id FROM job WHERE name = ANY (ARRAY(SELECT json_array_elements_text(CAST(:names AS json)))) ORDER BY id FOR NO KEY UPDATE}}

-- name: worker_hold
{{SELECT id FROM worker WHERE id = :worker_id FOR NO KEY UPDATE}}

-- name: births_hold
{{LOCK TABLE job IN SHARE ROW EXCLUSIVE MODE}}
