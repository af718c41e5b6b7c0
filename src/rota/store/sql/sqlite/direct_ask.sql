INSERT INTO direct_wait (id, turn, job_id, version, lane_id, params, boot_id, pid, pid_start, asked_at)
SELECT :id, coalesce(max(turn), 0) + 1, :job_id, :version, :lane_id, :params, :boot_id, :pid, :pid_start, :now FROM direct_wait
