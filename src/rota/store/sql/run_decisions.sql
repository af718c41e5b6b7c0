SELECT decisions FROM run WHERE id = :id AND finished_at IS NULL
-- when writing: FOR NO KEY UPDATE
