-- The condition decides, not what was read before (R-03). Giving back (a negative cost) always fits.
UPDATE pool SET used = used + :cost WHERE name = :name AND (used + :cost <= capacity OR :cost < 0)
