-- Of a restored copy: what runs held when it was made may be worked on where it was made.
UPDATE work_item
SET state = 'given_up', ended_at = coalesce(ended_at, :now), not_before = NULL, told_at = :now, error = :why
WHERE told_at IS NULL
