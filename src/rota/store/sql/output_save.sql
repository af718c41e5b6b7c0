INSERT INTO output (run_id, part, text, at) VALUES (:run_id, :part, :text, :now) ON CONFLICT DO NOTHING
