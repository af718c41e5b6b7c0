UPDATE job SET provisional_at = :provisional_at WHERE id = :id
