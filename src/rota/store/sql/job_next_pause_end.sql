SELECT min(paused_until) FROM job WHERE paused_until IS NOT NULL
