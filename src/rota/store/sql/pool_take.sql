-- The condition decides, not what was read before (R-03). Giving back (a negative cost) always fits.
UPDATE pool SET used = used + :cost
WHERE name = :name AND (CAST(:cost AS bigint) < 0 OR (used + :cost <= capacity
    AND NOT EXISTS (SELECT 1 FROM provider_hold WHERE pool = :name AND until IS NOT NULL)))
