SELECT id, waiting_for, predecessor_id FROM run
WHERE job_id = :job_id AND status IN ('QUEUED', 'DISPATCHED', 'RUNNING') AND waiting_for IN ('predecessor', 'replaced_run') ORDER BY id
