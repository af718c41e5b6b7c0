SELECT id, number, params, chain_id FROM run WHERE job_id = :job_id AND waiting_for = 'backoff' AND group_id IS NULL ORDER BY id
-- when writing: FOR NO KEY UPDATE
