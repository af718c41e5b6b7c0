-- The run that may be claimed and has so many before it, some not counted.
SELECT rank, position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND id NOT IN (SELECT json_array_elements_text(CAST(:without AS json)))
ORDER BY rank DESC, position, created_at, id LIMIT 1 OFFSET :before
