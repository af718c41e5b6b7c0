SELECT count(*) FROM process WHERE worker_id = :worker_id AND kind = :kind AND ending = 'lost' AND started_at >= :since AND epoch > :after
