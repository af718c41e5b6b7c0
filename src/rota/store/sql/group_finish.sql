UPDATE run_group SET status = :status, finished_at = :finished_at WHERE id = :id AND finished_at IS NULL
