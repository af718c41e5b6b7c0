UPDATE delivery SET next_at = :next_at, answer = :answer, error = :error WHERE id = :id AND next_at IS NOT NULL
