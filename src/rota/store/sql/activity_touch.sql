INSERT INTO activity (id, at, what) VALUES (1, :now, :what)
ON CONFLICT (id) DO UPDATE SET at = excluded.at, what = excluded.what
