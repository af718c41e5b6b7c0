SELECT job.*, job_version.spec AS spec
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.name = :name
-- when writing: FOR NO KEY UPDATE OF job
