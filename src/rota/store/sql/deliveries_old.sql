SELECT EXISTS (SELECT 1 FROM delivery WHERE created_at < :before AND finished_at IS NOT NULL)
