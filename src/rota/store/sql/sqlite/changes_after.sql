SELECT seq, kind, subject FROM change WHERE seq > :seq ORDER BY seq LIMIT :limit
