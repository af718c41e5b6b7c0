SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error
FROM delivery
WHERE (CAST(:status AS text) IS NULL OR status = :status)
  AND (CAST(:run_id AS text) IS NULL OR run_id = :run_id)
  AND (CAST(:target AS text) IS NULL OR target = :target)
  AND (CAST(:job_id AS text) IS NULL OR run_id IN (SELECT id FROM run WHERE job_id = :job_id))
ORDER BY created_at DESC, id DESC LIMIT :limit
