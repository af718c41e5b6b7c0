-- `not_before` null: it was tried often enough.
UPDATE work_item
SET state = CASE WHEN CAST(:not_before AS bigint) IS NULL THEN 'given_up' ELSE state END, not_before = :not_before, error = :error,
    told_at = CASE WHEN CAST(:not_before AS bigint) IS NULL THEN CAST(:now AS bigint) END
WHERE claim = :claim AND state IN ('reporting', 'releasing')
