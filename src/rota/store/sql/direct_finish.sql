UPDATE execution SET finished_at = :finished_at, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE id = :id AND finished_at IS NULL
