SELECT id FROM job WHERE paused_until <= :now ORDER BY paused_until LIMIT :limit
