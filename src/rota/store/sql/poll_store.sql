-- A failed poll leaves the data of the last good one.
INSERT INTO poll (id, run_id, at, ok, detail, good_at, data) VALUES (1, :run_id, :at, :ok, :detail, :good_at, :data)
ON CONFLICT (id) DO UPDATE SET run_id = excluded.run_id, at = excluded.at, ok = excluded.ok, detail = excluded.detail,
    good_at = coalesce(excluded.good_at, poll.good_at), data = coalesce(excluded.data, poll.data)
