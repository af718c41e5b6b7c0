SELECT id, status FROM run
WHERE job_id = :job_id AND finished_at IS NULL AND id < :below AND created_at <= :before
  AND status IN (SELECT value FROM json_each(:statuses))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR waiting_for = :waiting_for)
ORDER BY id DESC LIMIT :limit
