-- name: token_insert
INSERT INTO access_token (name, scope, hash, created_by, created_at, expires_at)
VALUES (:name, :scope, :hash, :created_by, :created_at, :expires_at)

-- name: token_by_hash
SELECT number, name, scope, created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by
FROM access_token WHERE hash = :hash

-- name: token_by_number
SELECT number, name, scope, created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by
FROM access_token WHERE number = :number

-- name: token_by_name
SELECT number, name, scope, created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by
FROM access_token WHERE name = :name AND revoked_at IS NULL

-- name: tokens_newest
SELECT number, name, scope, created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by
FROM access_token ORDER BY number DESC LIMIT :limit

-- name: token_use
UPDATE access_token SET last_used_at = :now
WHERE number = :number AND revoked_at IS NULL AND (last_used_at IS NULL OR last_used_at <= :before)

-- name: token_revoke
UPDATE access_token SET revoked_at = :now, revoked_by = :by WHERE number = :number AND revoked_at IS NULL
