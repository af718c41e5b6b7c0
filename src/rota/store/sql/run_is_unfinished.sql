SELECT id FROM run WHERE id = :id AND finished_at IS NULL
