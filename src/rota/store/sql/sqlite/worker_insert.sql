INSERT INTO worker (id, name, created_at) VALUES (:id, :name, :now)
