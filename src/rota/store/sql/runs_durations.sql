-- How long the job's newest finished runs took, among its last thousand.
SELECT finished_at - started_at FROM (SELECT started_at, finished_at FROM run WHERE job_id = :job_id ORDER BY number DESC LIMIT 1000) AS newest
WHERE started_at IS NOT NULL AND finished_at IS NOT NULL LIMIT :limit
