INSERT INTO process (worker_id, kind, boot_id, pid, pid_start, lock, version, clock_offset, started_at)
VALUES (:worker_id, :kind, :boot_id, :pid, :pid_start, :lock, :version, :clock_offset, :now) RETURNING epoch
