-- The slots of a worker that hold something, whichever process put it there: a run, a direct call that runs or is about to, a thread
-- that outlived its run. CROSS keeps the few calls before the many executions.
SELECT slot FROM run WHERE worker_id = :worker_id AND status IN ('DISPATCHED', 'RUNNING')
UNION ALL SELECT execution.slot FROM direct_hold CROSS JOIN execution
    WHERE execution.id = direct_hold.execution_id AND execution.worker_id = :worker_id
UNION ALL SELECT slot FROM direct_wait WHERE worker_id = :worker_id AND slot IS NOT NULL
UNION ALL SELECT abandoned.slot FROM abandoned JOIN process ON process.epoch = abandoned.epoch WHERE process.worker_id = :worker_id
