UPDATE job SET version = :version, updated_at = :now, paused_at = NULL, paused_until = NULL, pause_reason = NULL,
    held_for = NULL, next_for = :next_for, next_at = :next_at, anchored_at = :anchored_at, fire_number = :fire_number
WHERE id = :id AND version = :expected AND paused_at IS NOT NULL
