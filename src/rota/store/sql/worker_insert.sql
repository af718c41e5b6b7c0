INSERT INTO worker (id, name, labels, host, state, created_at) VALUES (:id, :name, :labels, :host, :state, :now)
ON CONFLICT DO NOTHING
