-- A tick that did nothing leaves its epoch to the next: no row names it.
UPDATE process SET kind = :kind, boot_id = :boot_id, pid = :pid, pid_start = :pid_start, lock = :lock, version = :version,
    clock_offset = :clock_offset, started_at = :now, ended_at = NULL, ending = NULL
WHERE epoch = :epoch AND ending = 'clean' AND epoch = (SELECT max(epoch) FROM process) RETURNING epoch
