INSERT INTO endpoint (endpoint, failures, closed_until, error) VALUES (:endpoint, :failures, :closed_until, :error)
ON CONFLICT (endpoint) DO UPDATE SET failures = :failures, closed_until = :closed_until, error = :error
