-- The run that may be claimed and has so many before it, some not counted.
SELECT rank, position, created_at, id FROM run INDEXED BY run_order
WHERE status = 'QUEUED' AND waiting_for IS NULL AND id NOT IN (SELECT value FROM json_each(:without))
ORDER BY rank DESC, position, created_at, id LIMIT 1 OFFSET :before
