SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error
FROM delivery WHERE id = :id OR substr(id, length(id) - length(:id) + 1) = lower(:id) ORDER BY created_at DESC LIMIT 2
