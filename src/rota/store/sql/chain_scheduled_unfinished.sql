SELECT run.id FROM run LEFT JOIN run root ON root.id = run.chain_id
WHERE run.job_id = :job_id AND run.finished_at IS NULL AND coalesce(root.trigger, run.trigger) = 'schedule' LIMIT 1
