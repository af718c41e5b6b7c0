-- Direct calls that have a slot, with the lock of the process that carries them; of reservations the caller is the process.
SELECT execution.id, coalesce(job.name, 'reserved slot'), 'RUNNING', process.lock, process.ending, process.worker_id, execution.boot_id, execution.pid, execution.pid_start
FROM direct_hold CROSS JOIN execution JOIN process ON process.epoch = direct_hold.epoch LEFT JOIN job ON job.id = execution.job_id
WHERE execution.id = direct_hold.execution_id
UNION ALL
SELECT direct_wait.id, coalesce(job.name, 'reserved slot'), 'DISPATCHED', process.lock, process.ending, process.worker_id, NULL, NULL, NULL
FROM direct_wait JOIN process ON process.epoch = direct_wait.epoch LEFT JOIN job ON job.id = direct_wait.job_id
