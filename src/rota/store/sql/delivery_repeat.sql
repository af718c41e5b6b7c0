UPDATE delivery SET status = 'PENDING', attempts = 0, next_at = :now, finished_at = NULL, answer = NULL, error = NULL
WHERE id = :id AND status <> 'PENDING'
