INSERT INTO execution (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
SELECT value ->> 0, value ->> 0, value ->> 1, :worker_id, CAST(value ->> 2 AS bigint), :epoch, :boot_id, :pid, :pid_start, :now
FROM jsonb_array_elements(CAST(:executions AS jsonb))
