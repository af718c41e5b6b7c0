SELECT run_id, at, ok, detail, good_at, data FROM poll
