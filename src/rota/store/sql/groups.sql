-- name: group_insert
INSERT INTO run_group (id, name, number, run_id, mode, on_failure, size, retry_of, created_at)
VALUES (:id, :name, :number, :run_id, :mode, :on_failure, :size, :retry_of, :now)

-- name: group_next_number
SELECT coalesce(max(number), 0) + 1 FROM run_group WHERE name = :name AND run_id IS NULL

-- name: group_by_id
SELECT * FROM run_group WHERE id = :id
{{FOR NO KEY UPDATE}}

-- name: group_of_run
SELECT * FROM run_group WHERE run_id = :run_id
{{FOR NO KEY UPDATE}}

-- name: group_seats
-- The newest attempt at each place: a retry represents the runs before it.
SELECT run.id, run.place, run.always, run.status, run.reason, run.waiting_for, run.attempt, run.job_id, run.version, run.job, run.number,
    run.finished_at
FROM run_now AS run
WHERE run.group_id = :group_id AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = run.group_id AND later.place = run.place AND later.attempt > run.attempt)
ORDER BY run.place

-- name: group_open_seats
-- A run that is not final is the newest attempt at its place. Those that always run come last.
SELECT run.id, run.place, run.always, run.status, run.reason, run.waiting_for, run.attempt, run.job_id, run.version, run.job, run.number,
    run.finished_at
FROM run AS member JOIN live ON live.run = member.seq JOIN run_now AS run ON run.seq = member.seq
WHERE member.group_id = :group_id
ORDER BY member.always, member.place LIMIT :limit

-- name: group_failed_seat
SELECT run.id, run.place, run.always, run.status, run.reason, run.waiting_for, run.attempt, run.job_id, run.version, run.job, run.number,
    run.finished_at
FROM run AS member JOIN ended ON ended.run = member.seq JOIN run_now AS run ON run.seq = member.seq
WHERE member.group_id = :group_id AND ended.status IN (5, 7) AND member.always = 0 AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = member.group_id AND later.place = member.place AND later.attempt > member.attempt)
ORDER BY member.place LIMIT 1

-- name: group_by_number
SELECT * FROM run_group WHERE name = :name AND number = :number ORDER BY id

-- name: groups_newest
SELECT * FROM run_group WHERE name = :name ORDER BY number DESC, id DESC LIMIT :limit OFFSET :offset

-- name: group_names
SELECT DISTINCT name FROM run_group ORDER BY name

-- name: group_ask_cancel
UPDATE run_group SET cancel_requested_at = :now WHERE id = :id AND finished_at IS NULL AND cancel_requested_at IS NULL

-- name: group_finish
UPDATE run_group SET status = :status, finished_at = :finished_at WHERE id = :id AND finished_at IS NULL

-- name: group_members
SELECT run.* FROM run_now AS run WHERE run.group_id = :group_id ORDER BY run.place, run.attempt
