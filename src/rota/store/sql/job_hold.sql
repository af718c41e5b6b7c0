UPDATE job SET held_for = :held_for, anchored_at = :anchored_at, used_up_at = :used_up_at, fire_number = :fire_number
WHERE id = :id AND version = :version AND paused_at IS NOT NULL
