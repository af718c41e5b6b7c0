UPDATE execution SET finished_at = :now, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE run_id = :run_id AND finished_at IS NULL
