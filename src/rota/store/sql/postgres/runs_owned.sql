-- What a process still holds when it ends, or left behind.
SELECT run.id, run.epoch, run.status, run.job_id, run.version, run.losses, run.cancel_requested_at, run.cancel_reason,
    execution.boot_id, execution.pid, execution.pid_start
FROM run LEFT JOIN execution ON execution.run_id = run.id AND execution.finished_at IS NULL
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND run.epoch = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST(:epochs AS json)) AS bigint))) ORDER BY run.id
