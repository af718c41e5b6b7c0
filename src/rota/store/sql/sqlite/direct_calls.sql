-- name: direct_ask
INSERT INTO direct_wait (id, turn, job_id, version, lane_id, params, boot_id, pid, pid_start, asked_at)
SELECT :id, coalesce(max(turn), 0) + 1, :job_id, :version, :lane_id, :params, :boot_id, :pid, :pid_start, :now FROM direct_wait

-- name: direct_held
-- Every unfinished direct call and its process. CROSS: from the few that are held, not from all calls.
SELECT call.*, NULL AS run_id, job.name AS job, direct_hold.epoch AS holder, direct_hold.cancel_requested_at
FROM direct_hold CROSS JOIN call ON call.id = direct_hold.execution_id LEFT JOIN job ON job.id = call.job_id
ORDER BY call.started_at, call.id

-- name: direct_oldest_before
SELECT id FROM call WHERE job_id IS :job_id AND finished_at < :before LIMIT 1
