INSERT INTO execution (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
VALUES (:id, :run_id, :job_id, :worker_id, :slot, :epoch, :boot_id, :pid, :pid_start, :now)
