SELECT run.id FROM run LEFT JOIN run first ON first.id = run.chain_id
WHERE run.job_id = :job_id AND run.finished_at IS NULL AND 'schedule' IN (run.trigger, first.trigger) LIMIT 1
