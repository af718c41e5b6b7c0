SELECT job.*, job_version.spec AS spec
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.provisional_at IS NOT NULL AND job.retired_at IS NULL
ORDER BY job.provisional_at, job.id
