-- Named tokens of the HTTP API. The token itself is not stored, only its SHA-256.
CREATE TABLE access_token (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    scope        TEXT NOT NULL CHECK (scope IN ('read', 'run', 'admin', 'agent', 'calendar')),
    hash         TEXT NOT NULL UNIQUE CHECK (length(hash) = 64),
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    -- Null: the token does not expire.
    expires_at   INTEGER CHECK (expires_at > created_at),
    -- Written at most once a minute.
    last_used_at INTEGER,
    revoked_at   INTEGER,
    revoked_by   TEXT,
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) STRICT;

CREATE UNIQUE INDEX access_token_name ON access_token (name) WHERE revoked_at IS NULL;

CREATE TRIGGER access_token_is_kept BEFORE UPDATE ON access_token
WHEN NEW.number IS NOT OLD.number OR NEW.name IS NOT OLD.name OR NEW.scope IS NOT OLD.scope OR NEW.hash IS NOT OLD.hash
    OR NEW.created_by IS NOT OLD.created_by OR NEW.created_at IS NOT OLD.created_at
    OR NEW.expires_at IS NOT OLD.expires_at OR OLD.revoked_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a token is used and revoked, never edited'); END;
