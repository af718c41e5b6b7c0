INSERT INTO request_key (caller, key, digest, at, status, body) VALUES (:caller, :key, :digest, :at, :status, :body)
ON CONFLICT (caller, key) DO UPDATE SET status = :status, body = :body WHERE request_key.digest = :digest
