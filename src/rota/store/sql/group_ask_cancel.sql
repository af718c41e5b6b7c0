UPDATE run_group SET cancel_requested_at = :now WHERE id = :id AND finished_at IS NULL AND cancel_requested_at IS NULL
