INSERT INTO execution (id, job_id, version, lane_id, params, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
VALUES (:id, :job_id, :version, :lane_id, :params, :caller, :worker_id, :slot, :epoch, :boot_id, :pid, :pid_start, :now)
