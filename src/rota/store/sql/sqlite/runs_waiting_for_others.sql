SELECT id, waiting_for, predecessor_id FROM run
WHERE job_id = :job_id AND waiting_for IS NOT NULL AND waiting_for IN ('predecessor', 'replaced_run') ORDER BY id
