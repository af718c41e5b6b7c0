SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error
FROM delivery WHERE id = :id OR id LIKE '%' || :id ORDER BY created_at DESC LIMIT 2
