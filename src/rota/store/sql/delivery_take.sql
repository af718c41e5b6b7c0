UPDATE delivery SET attempts = attempts + 1, next_at = :until WHERE id = :id AND next_at <= :now
