SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error
FROM delivery WHERE run_id = :run_id ORDER BY created_at, id
