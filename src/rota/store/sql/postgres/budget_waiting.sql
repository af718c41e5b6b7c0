-- Who waits for room in an account, in the order of the queue, with what each would reserve there.
SELECT run.id, job.name || ':' || run.number, CAST(lacking ->> 'estimate' AS bigint)
FROM run JOIN job ON job.id = run.job_id CROSS JOIN json_array_elements(CAST(run.decisions AS json) #> '{budget,accounts}') AS lacking
WHERE run.waiting_for = 'budget' AND lacking ->> 'account' = :budget AND lacking ->> 'answer' = 'wait'
ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit
