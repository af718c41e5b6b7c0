-- Jobs of which one of the newest runs ended in a way that may need somebody.
SELECT job.id FROM job
WHERE job.retired_at IS NULL AND EXISTS (
    SELECT 1 FROM (SELECT status, reason FROM run WHERE run.job_id = job.id ORDER BY number DESC LIMIT :newest) AS last
    WHERE last.status = 'FAILED' OR last.reason IN ('missed', 'condition_error', 'expired')
)
