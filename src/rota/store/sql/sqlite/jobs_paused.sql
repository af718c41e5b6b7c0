SELECT name, paused_at, paused_until, pause_reason FROM job WHERE paused_at IS NOT NULL ORDER BY name
