-- `not_before` null: it was tried often enough.
UPDATE work_item
SET state = iif(:not_before IS NULL, 'given_up', state), not_before = :not_before, error = :error,
    told_at = iif(:not_before IS NULL, :now, NULL)
WHERE claim = :claim AND state IN ('reporting', 'releasing')
