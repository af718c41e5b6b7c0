-- How long a session lasts and how many turns it has: a job may bound both. Null: an earlier rota stored it.
ALTER TABLE agent_session ADD COLUMN turns BIGINT NOT NULL DEFAULT 0 CHECK (turns >= 0);
ALTER TABLE agent_session ADD COLUMN began_at BIGINT;
