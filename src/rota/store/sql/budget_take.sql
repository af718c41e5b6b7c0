-- The condition decides, not what was read before. No limit: it is only counted, or given back.
UPDATE budget_window SET reserved = reserved + :amount
WHERE id = :id AND (CAST(:most AS bigint) IS NULL OR settled + reserved + :amount <= :most)
