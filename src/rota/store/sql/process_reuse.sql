-- A tick that did nothing leaves its epoch to the next one of its folder: no row names it. What served since is newer.
UPDATE process SET kind = :kind, boot_id = :boot_id, pid = :pid, pid_start = :pid_start, lock = :lock, version = :version,
    clock_offset = :clock_offset, started_at = :now, ended_at = NULL, ending = NULL
WHERE epoch = :epoch AND worker_id = :worker_id AND ending = 'clean'
    AND epoch = (SELECT max(own.epoch) FROM process AS own WHERE own.worker_id = :worker_id)
    AND NOT EXISTS (SELECT 1 FROM process AS later WHERE later.epoch > :epoch AND later.kind <> 'tick')
RETURNING epoch
