DELETE FROM execution WHERE id IN (
    SELECT id FROM execution WHERE run_id IS NULL AND job_id IS :job_id AND finished_at < :before ORDER BY id LIMIT :limit)
RETURNING id
