-- Of the last chain that a backfill began: the run that is not final, which may be a retry.
SELECT run.id FROM run LEFT JOIN run root ON root.id = run.chain_id
WHERE run.job_id = :job_id AND run.finished_at IS NULL AND coalesce(root.trigger, run.trigger) = 'backfill'
ORDER BY coalesce(run.chain_id, run.id) DESC, run.id DESC LIMIT 1
