-- The tables of rota. Instants are integer UTC milliseconds, identifiers UUIDv7 texts, documents JSON texts.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A worker claims runs into its slots. On SQLite it is the state folder; each process that schedules on it is an epoch.
CREATE TABLE worker (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE process (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
    worker_id  TEXT NOT NULL REFERENCES worker (id),
    kind       TEXT NOT NULL,
    boot_id    TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    pid_start  INTEGER NOT NULL,
    lock       TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    ending     TEXT CHECK (ending IN ('clean', 'detached', 'lost')),
    CHECK ((ended_at IS NULL) = (ending IS NULL))
) STRICT;

CREATE INDEX process_open ON process (epoch) WHERE ended_at IS NULL;

CREATE TABLE job (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    source      TEXT NOT NULL,
    version     INTEGER NOT NULL CHECK (version > 0),
    enabled     INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    retired_at  INTEGER,
    used_up_at  INTEGER,
    -- The cursor: the next instant as written, and with its jitter. Every earlier instant has its row.
    next_for    INTEGER,
    next_at     INTEGER,
    anchored_at INTEGER,
    fire_number INTEGER NOT NULL DEFAULT 0,
    run_number  INTEGER NOT NULL DEFAULT 0,
    ledger_from INTEGER NOT NULL,
    state       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state)),
    CHECK ((next_for IS NULL) = (next_at IS NULL)),
    CHECK (next_at >= next_for),
    CHECK (next_at IS NULL OR (enabled = 1 AND retired_at IS NULL AND used_up_at IS NULL))
) STRICT;

CREATE INDEX job_due ON job (next_at) WHERE next_at IS NOT NULL;

-- One row per span in which a job's definition, zone and enabledness stayed the same (INV-005, R-14, R-20).
CREATE TABLE job_version (
    job_id    TEXT NOT NULL REFERENCES job (id),
    version   INTEGER NOT NULL,
    spec      TEXT NOT NULL CHECK (json_valid(spec)),
    digest    TEXT NOT NULL,
    schedules INTEGER NOT NULL CHECK (schedules IN (0, 1)),
    tzdata    TEXT NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER CHECK (until >= since),
    PRIMARY KEY (job_id, version)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER inv_005 BEFORE UPDATE ON job_version
WHEN OLD.until IS NOT NULL
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.version IS DISTINCT FROM OLD.version
  OR NEW.spec IS DISTINCT FROM OLD.spec
  OR NEW.digest IS DISTINCT FROM OLD.digest
  OR NEW.schedules IS DISTINCT FROM OLD.schedules
  OR NEW.tzdata IS DISTINCT FROM OLD.tzdata
  OR NEW.since IS DISTINCT FROM OLD.since
BEGIN SELECT RAISE(ABORT, 'INV-005'); END;

-- Each distinct set of pools is a lane (R-03). Lane 1 draws on none.
CREATE TABLE lane (
    id  INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO lane (id, key) VALUES (1, '');

CREATE TABLE run (
    id                  TEXT PRIMARY KEY,
    job_id              TEXT NOT NULL REFERENCES job (id),
    number              INTEGER NOT NULL,
    version             INTEGER NOT NULL,
    trigger             TEXT NOT NULL,
    slot_key            TEXT,
    scheduled_for       INTEGER,
    covers_to           INTEGER CHECK (covers_to > scheduled_for),
    count               INTEGER CHECK (count > 0),
    status              TEXT NOT NULL,
    reason              TEXT,
    waiting_for         TEXT,
    not_before          INTEGER,
    expires_at          INTEGER,
    predecessor_id      TEXT,
    lane_id             INTEGER NOT NULL DEFAULT 1 REFERENCES lane (id),
    priority            INTEGER NOT NULL DEFAULT 0,
    position            INTEGER NOT NULL,
    params              TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(params)),
    attempt             INTEGER NOT NULL DEFAULT 1,
    retry_of            TEXT REFERENCES run (id),
    forced              INTEGER NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    created_at          INTEGER NOT NULL,
    first_dispatched_at INTEGER,
    started_at          INTEGER,
    finished_at         INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason       TEXT,
    worker_id           TEXT REFERENCES worker (id),
    slot                INTEGER,
    epoch               INTEGER REFERENCES process (epoch),
    losses              INTEGER NOT NULL DEFAULT 0,
    error               TEXT,
    result_summary      TEXT,
    decisions           TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(decisions)),
    FOREIGN KEY (job_id, version) REFERENCES job_version (job_id, version),
    CHECK (status IN ('QUEUED', 'DISPATCHED', 'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')),
    CHECK ((status IN ('FAILED', 'SKIPPED', 'CANCELLED')) = (reason IS NOT NULL)),
    CHECK ((status IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')) = (finished_at IS NOT NULL)),
    CHECK ((status IN ('DISPATCHED', 'RUNNING')) <= (worker_id IS NOT NULL AND slot IS NOT NULL AND epoch IS NOT NULL)),
    CHECK ((status = 'RUNNING') <= (started_at IS NOT NULL)),
    CHECK (waiting_for IS NULL OR status = 'QUEUED'),
    CHECK (not_before IS NULL OR waiting_for IS NOT NULL),
    CHECK (trigger <> 'schedule' OR scheduled_for IS NOT NULL)
) STRICT;

-- R-05: the identity of a fire.
CREATE UNIQUE INDEX run_fire ON run (job_id, slot_key) WHERE slot_key IS NOT NULL;
CREATE UNIQUE INDEX run_number ON run (job_id, number);
-- INV-003: one run in each slot.
CREATE UNIQUE INDEX run_slot ON run (worker_id, slot) WHERE status IN ('DISPATCHED', 'RUNNING');
-- R-02, R-03, INV-004: what may be claimed, in order.
CREATE INDEX run_ready ON run (lane_id, priority DESC, position, created_at, id) WHERE status = 'QUEUED' AND waiting_for IS NULL;
CREATE INDEX run_released ON run (not_before) WHERE status = 'QUEUED' AND not_before IS NOT NULL;
CREATE INDEX run_expiring ON run (expires_at) WHERE status = 'QUEUED' AND expires_at IS NOT NULL;
CREATE INDEX run_unfinished ON run (job_id, id) WHERE status IN ('QUEUED', 'DISPATCHED', 'RUNNING');
CREATE INDEX run_waiting ON run (job_id, id) WHERE waiting_for IS NOT NULL;
CREATE INDEX run_cancelling ON run (cancel_requested_at) WHERE cancel_requested_at IS NOT NULL AND status IN ('DISPATCHED', 'RUNNING');
-- Without it, deleting a run would read the whole table for runs that point at it.
CREATE INDEX run_retries ON run (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX run_pruning ON run (job_id, status, finished_at) WHERE finished_at IS NOT NULL;

CREATE TRIGGER inv_001 BEFORE UPDATE ON run
WHEN OLD.first_dispatched_at IS NOT NULL
  AND (NEW.params IS DISTINCT FROM OLD.params OR NEW.first_dispatched_at IS DISTINCT FROM OLD.first_dispatched_at)
BEGIN SELECT RAISE(ABORT, 'INV-001'); END;

CREATE TRIGGER run_final BEFORE UPDATE ON run
WHEN OLD.finished_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a finished run never changes'); END;

CREATE TRIGGER run_transition BEFORE UPDATE ON run
WHEN NEW.status <> OLD.status AND (OLD.status || '>' || NEW.status) NOT IN (
    'QUEUED>DISPATCHED', 'QUEUED>RUNNING', 'QUEUED>SKIPPED', 'QUEUED>CANCELLED',
    'DISPATCHED>RUNNING', 'DISPATCHED>QUEUED', 'DISPATCHED>FAILED', 'DISPATCHED>SKIPPED', 'DISPATCHED>CANCELLED',
    'RUNNING>COMPLETED', 'RUNNING>FAILED', 'RUNNING>CANCELLED')
BEGIN SELECT RAISE(ABORT, 'no such transition'); END;

CREATE TRIGGER run_identity BEFORE UPDATE ON run
WHEN NEW.id IS DISTINCT FROM OLD.id
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.number IS DISTINCT FROM OLD.number
  OR NEW.version IS DISTINCT FROM OLD.version
  OR NEW.trigger IS DISTINCT FROM OLD.trigger
  OR NEW.slot_key IS DISTINCT FROM OLD.slot_key
  OR NEW.scheduled_for IS DISTINCT FROM OLD.scheduled_for
  OR NEW.created_at IS DISTINCT FROM OLD.created_at
BEGIN SELECT RAISE(ABORT, 'INV-005'); END;

CREATE TABLE execution (
    id          TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL UNIQUE REFERENCES run (id),
    job_id      TEXT NOT NULL REFERENCES job (id),
    worker_id   TEXT NOT NULL REFERENCES worker (id),
    slot        INTEGER NOT NULL,
    epoch       INTEGER NOT NULL REFERENCES process (epoch),
    boot_id     TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    pid_start   INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    status      TEXT CHECK (status IN ('COMPLETED', 'FAILED', 'CANCELLED')),
    exit_code   INTEGER,
    error       TEXT,
    artifacts   TEXT CHECK (json_valid(artifacts)),
    CHECK ((finished_at IS NULL) = (status IS NULL)),
    CHECK (length(artifacts) <= 16384)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX execution_slot ON execution (worker_id, slot) WHERE finished_at IS NULL;
CREATE INDEX execution_job ON execution (job_id, started_at);

CREATE TRIGGER inv_002 BEFORE UPDATE ON execution
WHEN OLD.finished_at IS NOT NULL
  OR NEW.id IS DISTINCT FROM OLD.id
  OR NEW.run_id IS DISTINCT FROM OLD.run_id
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.worker_id IS DISTINCT FROM OLD.worker_id
  OR NEW.slot IS DISTINCT FROM OLD.slot
  OR NEW.epoch IS DISTINCT FROM OLD.epoch
  OR NEW.boot_id IS DISTINCT FROM OLD.boot_id
  OR NEW.pid IS DISTINCT FROM OLD.pid
  OR NEW.pid_start IS DISTINCT FROM OLD.pid_start
  OR NEW.started_at IS DISTINCT FROM OLD.started_at
BEGIN SELECT RAISE(ABORT, 'INV-002'); END;
