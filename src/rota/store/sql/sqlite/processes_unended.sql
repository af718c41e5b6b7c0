SELECT epoch, kind, boot_id, pid, pid_start, lock, started_at FROM process WHERE ended_at IS NULL ORDER BY epoch
