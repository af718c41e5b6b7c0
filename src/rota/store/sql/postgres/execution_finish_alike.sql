UPDATE execution SET finished_at = :finished_at, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:run_ids AS jsonb)))) AND finished_at IS NULL
