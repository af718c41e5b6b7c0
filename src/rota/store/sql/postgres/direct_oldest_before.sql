-- Two equalities find their place in the index, which `IS NOT DISTINCT FROM` does not.
SELECT id FROM execution
WHERE run_id IS NULL AND (job_id = :job_id OR (CAST(:job_id AS text) IS NULL AND job_id IS NULL)) AND finished_at < :before LIMIT 1
