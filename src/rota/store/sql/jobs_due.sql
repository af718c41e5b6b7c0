SELECT id FROM job WHERE next_at <= :now ORDER BY next_at, id LIMIT :limit
