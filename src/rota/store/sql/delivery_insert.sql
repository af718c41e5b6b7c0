INSERT INTO delivery (id, run_id, handle, event, target, own, endpoint, next_at, created_at)
VALUES (:id, :run_id, :handle, :event, :target, :own, :endpoint, :now, :now)
ON CONFLICT (run_id, event, target) DO NOTHING
