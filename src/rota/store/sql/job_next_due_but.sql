SELECT next_at FROM job WHERE next_at IS NOT NULL AND name <> :name ORDER BY next_at LIMIT 1
