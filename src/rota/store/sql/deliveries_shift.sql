UPDATE delivery SET next_at = next_at - :back WHERE next_at IS NOT NULL
