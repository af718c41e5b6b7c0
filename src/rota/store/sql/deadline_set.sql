INSERT INTO deadline (run_id, at) VALUES (:run_id, :at)
