SELECT run.id, job.name, run.number, run.status, process.lock, process.ending, process.worker_id, execution.boot_id, execution.pid, execution.pid_start
FROM run JOIN job ON job.id = run.job_id LEFT JOIN process ON process.epoch = run.epoch LEFT JOIN execution ON execution.run_id = run.id
WHERE run.status IN ('DISPATCHED', 'RUNNING') AND run.lane_id <> 0
