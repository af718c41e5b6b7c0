UPDATE job SET approved = :approved, approved_at = :approved_at WHERE id = :id
