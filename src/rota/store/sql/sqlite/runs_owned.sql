-- What a process still holds when it ends, or left behind. The plus keeps the order from choosing the index: read what
-- is in slots and sort it, not the whole table in order.
SELECT run.id, run.epoch, run.status, run.job_id, run.version, run.losses, run.cancel_requested_at, run.cancel_reason,
    execution.boot_id, execution.pid, execution.pid_start
FROM run LEFT JOIN execution ON execution.run_id = run.id AND execution.finished_at IS NULL
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND run.epoch IN (SELECT value FROM json_each(:epochs)) ORDER BY +run.id
