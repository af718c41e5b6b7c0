INSERT INTO failing (job_id, target, told_at) VALUES (:job_id, :target, :told_at)
ON CONFLICT (job_id, target) DO UPDATE SET told_at = :told_at
