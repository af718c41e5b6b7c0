INSERT INTO process (worker_id, kind, boot_id, pid, pid_start, lock, version, started_at)
VALUES (:worker_id, :kind, :boot_id, :pid, :pid_start, :lock, :version, :now) RETURNING epoch
