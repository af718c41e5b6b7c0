INSERT INTO execution (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
SELECT value ->> 0, value ->> 1, value ->> 2, :worker_id, CAST(value ->> 3 AS bigint), :epoch, :boot_id, :pid, :pid_start, :now
FROM jsonb_array_elements(CAST(:executions AS jsonb))
