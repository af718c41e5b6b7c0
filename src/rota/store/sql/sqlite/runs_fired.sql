-- Which of these instants really ran, by the key of their fire (R-05).
SELECT run.scheduled_for FROM json_each(:keys) AS item CROSS JOIN run INDEXED BY run_fire ON run.job_id = :job_id AND run.slot_key = item.value
WHERE run.status <> 'SKIPPED'
