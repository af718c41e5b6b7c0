UPDATE job SET next_for = next_for - :back, next_at = next_at - :back, anchored_at = anchored_at - :back, held_for = held_for - :back
WHERE id = :id
