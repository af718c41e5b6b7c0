-- The windows of subscriptions as agents last reported them. `used` is in millionths; NULL: only the reset is known.
CREATE TABLE subscription_window (
    provider  TEXT NOT NULL,
    name      TEXT NOT NULL,
    used      INTEGER CHECK (used BETWEEN 0 AND 1000000),
    resets_at INTEGER,
    at        INTEGER NOT NULL,
    PRIMARY KEY (provider, name)
) STRICT, WITHOUT ROWID;
