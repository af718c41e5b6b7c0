INSERT INTO execution (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
SELECT value ->> 0, value ->> 0, value ->> 1, :worker_id, value ->> 2, :epoch, :boot_id, :pid, :pid_start, :now
FROM json_each(:executions)
