SELECT id, key FROM lane
