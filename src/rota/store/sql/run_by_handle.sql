SELECT run.id FROM run JOIN job ON job.id = run.job_id WHERE job.name = :name AND run.number = :number
