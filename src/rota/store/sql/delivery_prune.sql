DELETE FROM delivery WHERE id IN (
    SELECT id FROM delivery WHERE created_at < :before AND finished_at IS NOT NULL ORDER BY created_at LIMIT :limit
)
