UPDATE execution SET finished_at = :finished_at, status = :status, exit_code = :exit_code, error = :error, artifacts = :artifacts
WHERE run_id IN (SELECT value FROM json_each(:run_ids)) AND finished_at IS NULL
