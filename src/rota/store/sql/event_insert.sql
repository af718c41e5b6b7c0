INSERT INTO event (id, at, kind, job_id, run_id, data) VALUES (:id, :at, :kind, :job_id, :run_id, :data)
