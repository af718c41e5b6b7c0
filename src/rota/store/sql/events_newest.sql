SELECT id, at, kind, job_id, run_id, data FROM event WHERE at >= :since ORDER BY id DESC LIMIT :limit
