SELECT status, cancel_reason FROM run WHERE id = :id AND finished_at IS NULL
-- when writing: FOR NO KEY UPDATE
