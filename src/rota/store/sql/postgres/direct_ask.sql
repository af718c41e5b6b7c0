-- By a sequence: two who ask at the same time must not get the same turn.
INSERT INTO direct_wait (id, turn, job_id, version, lane_id, params, boot_id, pid, pid_start, asked_at)
VALUES (:id, nextval('direct_turn'), :job_id, :version, :lane_id, :params, :boot_id, :pid, :pid_start, :now)
