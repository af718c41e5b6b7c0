SELECT count(*) FILTER (WHERE status = 'QUEUED'), count(*) FILTER (WHERE status <> 'QUEUED') FROM run
WHERE job_id = :job_id AND finished_at IS NULL AND created_at <= :before
  AND status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR waiting_for = :waiting_for)
