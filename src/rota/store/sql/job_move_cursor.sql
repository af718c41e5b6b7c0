-- Nothing changes when another process moved the cursor or changed the job first.
UPDATE job SET next_for = :next_for, next_at = :next_at, anchored_at = :anchored_at, used_up_at = :used_up_at, fire_number = :fire_number
WHERE id = :id AND version = :version AND next_for IS NOT DISTINCT FROM :expected
