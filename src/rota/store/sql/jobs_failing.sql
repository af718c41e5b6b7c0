-- Jobs whose newest end, of those that say how the work went, is a failure.
SELECT job.id FROM job
WHERE job.retired_at IS NULL
  AND (SELECT max(finished_at) FROM run WHERE job_id = job.id AND status = 'FAILED' AND finished_at IS NOT NULL)
    > coalesce((SELECT max(finished_at) FROM run WHERE job_id = job.id AND status = 'COMPLETED' AND finished_at IS NOT NULL), 0)
