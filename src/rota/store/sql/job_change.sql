UPDATE job SET version = :version, source = :source, enabled = :enabled, updated_at = :now, retired_at = :retired_at,
    used_up_at = :used_up_at, next_for = :next_for, next_at = :next_at, held_for = :held_for
WHERE id = :id AND version = :expected
