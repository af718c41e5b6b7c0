SELECT id FROM lane WHERE key = :key
