SELECT count(*) FROM process WHERE kind = :kind AND ending = 'lost' AND started_at >= :since
