-- The jobs whose runs somebody is told of, and since when they are what they are.
SELECT job.id, job.name, job.updated_at, version.spec
FROM notifying JOIN job ON job.id = notifying.job_id
JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
ORDER BY job.name
