INSERT INTO endpoint (endpoint, disabled_at, error) VALUES (:endpoint, :now, :error)
ON CONFLICT (endpoint) DO UPDATE SET disabled_at = :now, error = :error
