-- How many jobs go by the mode, by the quiet hours that make them dormant (R-18).
SELECT quiet, COUNT(*) FROM job WHERE mode IS NOT NULL AND retired_at IS NULL GROUP BY quiet ORDER BY quiet
