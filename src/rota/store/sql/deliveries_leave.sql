UPDATE delivery SET status = 'FAILED', next_at = NULL, finished_at = :now, error = :error WHERE next_at IS NOT NULL
