DELETE FROM deadline WHERE run_id IN (SELECT run_id FROM deadline WHERE at <= :now ORDER BY at LIMIT :limit)
RETURNING run_id
