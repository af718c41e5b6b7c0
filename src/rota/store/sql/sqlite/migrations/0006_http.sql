-- HTTP: the audit, the keys of repeated requests, remote workers.

-- Who did what. Lines are added, never changed and never taken away.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    face   TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(detail))
) STRICT;

CREATE TRIGGER audit_never_changes BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit never changes'); END;

CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit never changes'); END;

-- Requests with an Idempotency-Key, for a day: the row is written with the effects, its answer afterwards.
CREATE TABLE request_key (
    caller TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest TEXT NOT NULL,
    at     INTEGER NOT NULL,
    status INTEGER,
    body   TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_key_at ON request_key (at);

-- Schedulers elsewhere that read this one (document 001): they are registered while they say that they are there.
CREATE TABLE remote_worker (
    name          TEXT PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    lost_after    INTEGER NOT NULL CHECK (lost_after > 0)
) STRICT, WITHOUT ROWID;

-- What changed, in order, for those who follow it live: the newest 100,000 changes, so that it never grows.
CREATE TABLE change (
    seq     INTEGER PRIMARY KEY,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT;

CREATE TRIGGER change_is_bounded AFTER INSERT ON change
BEGIN DELETE FROM change WHERE seq = NEW.seq - 100000; END;

CREATE TRIGGER run_made AFTER INSERT ON run
BEGIN INSERT INTO change (kind, subject) VALUES ('run', NEW.id); END;

CREATE TRIGGER run_moved AFTER UPDATE OF status, waiting_for, cancel_requested_at, priority, params ON run
BEGIN INSERT INTO change (kind, subject) VALUES ('run', NEW.id); END;

CREATE TRIGGER job_made AFTER INSERT ON job
BEGIN INSERT INTO change (kind, subject) VALUES ('job', NEW.id); END;

CREATE TRIGGER job_moved AFTER UPDATE OF version, enabled, retired_at, used_up_at, paused_at, paused_until ON job
WHEN NEW.version <> OLD.version OR NEW.enabled <> OLD.enabled OR NEW.retired_at IS NOT OLD.retired_at
  OR NEW.used_up_at IS NOT OLD.used_up_at OR NEW.paused_at IS NOT OLD.paused_at OR NEW.paused_until IS NOT OLD.paused_until
BEGIN INSERT INTO change (kind, subject) VALUES ('job', NEW.id); END;

-- Notifications (DEC-009): what is to be told to whom. A row is written in the transaction of what it is about.
CREATE TABLE delivery (
    id          TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    handle      TEXT NOT NULL,
    event       TEXT NOT NULL,
    target      TEXT NOT NULL,
    own         TEXT CHECK (own IS NULL OR json_valid(own)),
    endpoint    TEXT NOT NULL,
    status      TEXT NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts    INTEGER NOT NULL DEFAULT 0,
    next_at     INTEGER,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    answer      INTEGER,
    error       TEXT,
    CHECK ((status = 'PENDING') = (next_at IS NOT NULL)),
    CHECK ((status = 'PENDING') = (finished_at IS NULL)),
    UNIQUE (run_id, event, target)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_due ON delivery (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX delivery_made ON delivery (created_at);

-- Endpoints that failed of late or are gone: those that work have no row.
CREATE TABLE endpoint (
    endpoint     TEXT PRIMARY KEY,
    failures     INTEGER NOT NULL DEFAULT 0,
    closed_until INTEGER,
    disabled_at  INTEGER,
    error        TEXT
) STRICT, WITHOUT ROWID;

-- Jobs that fail, as each of their targets was told last.
CREATE TABLE failing (
    job_id  TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    target  TEXT NOT NULL,
    told_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, target)
) STRICT, WITHOUT ROWID;

-- By when unfinished runs must have finished (`finish_by`).
CREATE TABLE deadline (
    run_id TEXT PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX deadline_at ON deadline (at);

-- Jobs whose runs are told of: the end of a run looks here alone.
CREATE TABLE notifying (
    job_id TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TRIGGER job_version_notifies AFTER INSERT ON job_version
BEGIN
    DELETE FROM notifying WHERE job_id = NEW.job_id;
    INSERT INTO notifying (job_id)
    SELECT NEW.job_id
    WHERE json_array_length(NEW.spec, '$.notify') > 0
       OR json_array_length(NEW.spec, '$.notify_own') > 0
       OR json_extract(NEW.spec, '$.finish_by') <> '';
END;
