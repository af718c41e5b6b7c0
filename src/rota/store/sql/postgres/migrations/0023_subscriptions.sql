-- The windows of subscriptions as agents last reported them. `used` is in millionths; NULL: only the reset is known.
CREATE TABLE subscription_window (
    provider  TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    used      BIGINT CHECK (used BETWEEN 0 AND 1000000),
    resets_at BIGINT,
    at        BIGINT NOT NULL,
    PRIMARY KEY (provider, name)
);
