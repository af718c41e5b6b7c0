SELECT min(next_at) FROM job WHERE next_at IS NOT NULL
