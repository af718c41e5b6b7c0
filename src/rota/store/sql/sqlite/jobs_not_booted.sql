-- Jobs at boot that have not run for this boot, and were not made in it (R-05).
SELECT id FROM job WHERE booted <> :boot AND enabled = 1 AND retired_at IS NULL ORDER BY name
