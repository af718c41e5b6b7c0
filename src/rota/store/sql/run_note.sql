UPDATE run SET decisions = :decisions WHERE id = :id AND finished_at IS NULL
