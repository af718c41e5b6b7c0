-- How many of a session's tokens of input were read from a cache: they have a rate of their own.
ALTER TABLE agent_session ADD COLUMN tokens_cached INTEGER NOT NULL DEFAULT 0 CHECK (tokens_cached >= 0);
