UPDATE job SET version = :version, updated_at = :now, paused_at = :now, paused_until = :until, pause_reason = :reason,
    held_for = next_for, next_for = NULL, next_at = NULL
WHERE id = :id AND version = :expected AND paused_at IS NULL
