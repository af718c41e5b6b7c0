SELECT id FROM run WHERE job_id = :job_id AND waiting_for IS NOT NULL AND waiting_for = 'replaced_run' ORDER BY id
-- when writing: FOR NO KEY UPDATE
