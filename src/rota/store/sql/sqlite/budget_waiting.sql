-- Who waits for room in an account, in the order of the queue, with what each would reserve there.
SELECT run.id, job.name || ':' || run.number, lacking.value ->> 'estimate'
FROM run INDEXED BY run_budget JOIN job ON job.id = run.job_id, json_each(run.decisions, '$.budget.accounts') AS lacking
WHERE run.waiting_for = 'budget' AND lacking.value ->> 'account' = :budget AND lacking.value ->> 'answer' = 'wait'
ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit
