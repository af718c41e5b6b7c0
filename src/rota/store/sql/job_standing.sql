-- What the end of a run must look after in its job: failures to be forgotten, runs that wait for others, who is told.
SELECT failures, EXISTS (SELECT 1 FROM run WHERE job_id = :id AND waiting_for IS NOT NULL AND waiting_for IN ('predecessor', 'replaced_run')),
       EXISTS (SELECT 1 FROM notifying WHERE job_id = :id)
FROM job WHERE id = :id
