-- What the end of a run must look after in its job: failures to be forgotten, and runs that wait for others.
SELECT failures, EXISTS (SELECT 1 FROM run WHERE job_id = :id AND waiting_for IS NOT NULL AND waiting_for IN ('predecessor', 'replaced_run'))
FROM job WHERE id = :id
