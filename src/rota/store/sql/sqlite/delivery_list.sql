SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error
FROM delivery
WHERE (:status IS NULL OR status = :status)
  AND (:run_id IS NULL OR run_id = :run_id)
  AND (:target IS NULL OR target = :target)
  AND (:job_id IS NULL OR run_id IN (SELECT id FROM run WHERE job_id = :job_id))
ORDER BY created_at DESC, id DESC LIMIT :limit
