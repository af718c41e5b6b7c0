SELECT name, paused_at, paused_until, pause_reason FROM job WHERE paused_at IS NOT NULL AND retired_at IS NULL ORDER BY name
