-- What targets were told of the runs of a job beyond how they ended.
SELECT coalesce(run.chain_id, run.id), delivery.event, delivery.target, delivery.created_at
FROM run JOIN delivery ON delivery.run_id = run.id
WHERE run.job_id = :job_id AND delivery.event IN ('late', 'missed', 'recovered')
