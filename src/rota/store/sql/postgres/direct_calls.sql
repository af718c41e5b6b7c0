-- name: direct_ask
-- By a sequence: two concurrent calls must not get the same place.
INSERT INTO direct_wait (id, turn, job_id, version, lane_id, params, boot_id, pid, pid_start, asked_at)
VALUES (:id, nextval('direct_turn'), :job_id, :version, :lane_id, :params, :boot_id, :pid, :pid_start, :now)

-- name: direct_held
-- Every unfinished direct call and its process.
SELECT call.*, NULL AS run_id, job.name AS job, direct_hold.epoch AS holder, direct_hold.cancel_requested_at
FROM direct_hold JOIN call ON call.id = direct_hold.execution_id LEFT JOIN job ON job.id = call.job_id
ORDER BY call.started_at, call.id

-- name: direct_oldest_before
-- Two equalities find their place in the index, which `IS NOT DISTINCT FROM` does not.
SELECT id FROM call WHERE (job_id = :job_id OR (CAST(:job_id AS text) IS NULL AND job_id IS NULL)) AND finished_at < :before LIMIT 1
