SELECT job.name, run.number, run.waiting_for FROM run JOIN job ON job.id = run.job_id
WHERE run.waiting_for IS NOT NULL AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))) AND CASE run.waiting_for
    WHEN 'condition' THEN run.not_before IS NULL
    WHEN 'predecessor' THEN NOT EXISTS (SELECT 1 FROM run first WHERE first.id = run.predecessor_id AND first.job_id = run.job_id
        AND first.number < run.number AND first.status IN ('QUEUED', 'DISPATCHED', 'RUNNING'))
    WHEN 'replaced_run' THEN NOT EXISTS (SELECT 1 FROM run first WHERE first.job_id = run.job_id AND first.id < run.id
        AND first.status IN ('QUEUED', 'DISPATCHED', 'RUNNING'))
    ELSE 1 END
LIMIT :limit
