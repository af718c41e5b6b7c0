-- Pauses (R-20): the cursor of a paused job is held back in `held_for` until the pause ends.
ALTER TABLE job ADD COLUMN paused_at INTEGER;
ALTER TABLE job ADD COLUMN paused_until INTEGER;
ALTER TABLE job ADD COLUMN pause_reason TEXT;
ALTER TABLE job ADD COLUMN held_for INTEGER CHECK (held_for IS NULL OR paused_at IS NOT NULL);

CREATE INDEX job_pause_ends ON job (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX job_paused ON job (name) WHERE paused_at IS NOT NULL;

CREATE TRIGGER job_paused_has_no_cursor BEFORE UPDATE ON job
WHEN NEW.paused_at IS NOT NULL AND NEW.next_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'R-20'); END;

-- A span in which the job was paused has instants, none of which fires.
ALTER TABLE job_version ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1));

DROP TRIGGER inv_005;
CREATE TRIGGER inv_005 BEFORE UPDATE ON job_version
WHEN OLD.until IS NOT NULL
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.version IS DISTINCT FROM OLD.version
  OR NEW.spec IS DISTINCT FROM OLD.spec
  OR NEW.digest IS DISTINCT FROM OLD.digest
  OR NEW.schedules IS DISTINCT FROM OLD.schedules
  OR NEW.paused IS DISTINCT FROM OLD.paused
  OR NEW.tzdata IS DISTINCT FROM OLD.tzdata
  OR NEW.since IS DISTINCT FROM OLD.since
BEGIN SELECT RAISE(ABORT, 'INV-005'); END;

-- Wall time minus the time since boot when a process began (R-26): a later, smaller one shows that the clock was set back.
ALTER TABLE process ADD COLUMN clock_offset INTEGER;

-- What happened to the scheduler itself. Audit only: nothing is decided from it.
CREATE TABLE event (
    id     TEXT PRIMARY KEY,
    at     INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    job_id TEXT,
    run_id TEXT,
    data   TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(data))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER event_is_append_only BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events never change'); END;
