DELETE FROM deadline WHERE run_id IN (
    SELECT run_id FROM deadline WHERE at <= :now ORDER BY at LIMIT :limit
    -- when writing: FOR UPDATE SKIP LOCKED
)
RETURNING run_id
