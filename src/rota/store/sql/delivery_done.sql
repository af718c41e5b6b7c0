UPDATE delivery SET status = :status, next_at = NULL, finished_at = :now, answer = :answer, error = :error
WHERE id = :id AND next_at IS NOT NULL
