DELETE FROM execution WHERE id IN (
    SELECT id FROM execution
    WHERE run_id IS NULL AND (job_id = :job_id OR (CAST(:job_id AS text) IS NULL AND job_id IS NULL)) AND finished_at < :before
    ORDER BY id LIMIT :limit)
RETURNING id
