UPDATE direct_hold SET cancel_requested_at = :now WHERE execution_id = :id AND cancel_requested_at IS NULL
