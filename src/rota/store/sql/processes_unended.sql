SELECT epoch, kind, boot_id, pid, pid_start, lock, started_at, worker_id, lease_until, version FROM process WHERE ended_at IS NULL ORDER BY epoch
