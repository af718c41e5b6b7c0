-- Why a provider is held, and since when it refuses: a missing login holds until a check finds one.
ALTER TABLE provider_hold ADD COLUMN problem TEXT NOT NULL DEFAULT 'quota' CHECK (problem IN ('quota', 'outage', 'auth'));
ALTER TABLE provider_hold ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE provider_hold SET since = set_at;
