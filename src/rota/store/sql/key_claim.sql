INSERT INTO request_key (caller, key, digest, at) VALUES (:caller, :key, :digest, :at) ON CONFLICT DO NOTHING
