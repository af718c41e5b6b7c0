SELECT run.*, job.name AS job, execution.exit_code AS exit_code
FROM json_each(:ids) AS item JOIN run ON run.id = item.value JOIN job ON job.id = run.job_id
LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key
