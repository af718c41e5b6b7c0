-- The queue: order with aging, pools and lanes, retries, groups, direct calls. Foreign keys are off while this runs.

-- Pools (R-03, R-04): a counter moved in the transaction that takes or gives back. Undeclared ones are still drawn on by older runs.
CREATE TABLE pool (
    name     TEXT PRIMARY KEY,
    capacity INTEGER NOT NULL CHECK (capacity >= 0),
    used     INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0),
    declared INTEGER NOT NULL DEFAULT 1 CHECK (declared IN (0, 1))
) STRICT, WITHOUT ROWID;

-- What each lane draws. Lane 1 draws on nothing; lane 0 holds the runs of groups, which take no slot and are never claimed.
CREATE TABLE lane_pool (
    lane_id INTEGER NOT NULL REFERENCES lane (id),
    pool    TEXT NOT NULL REFERENCES pool (name),
    cost    INTEGER NOT NULL CHECK (cost > 0),
    PRIMARY KEY (lane_id, pool)
) STRICT, WITHOUT ROWID;

INSERT INTO lane (id, key) VALUES (0, 'group');

-- Repeated failure (DEC-007): how many chains failed one after another, and until when instants are held back.
ALTER TABLE job ADD COLUMN failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0);
ALTER TABLE job ADD COLUMN backing_off_until INTEGER;

-- Groups (R-15). A declared one belongs to a run of its job (`run_id`) and has its number; one made at run time stands for itself.
CREATE TABLE run_group (
    id                  TEXT PRIMARY KEY,
    name                TEXT NOT NULL,
    number              INTEGER NOT NULL CHECK (number > 0),
    run_id              TEXT UNIQUE REFERENCES run (id),
    mode                TEXT NOT NULL CHECK (mode IN ('sequential', 'parallel')),
    on_failure          TEXT NOT NULL CHECK (on_failure IN ('stop', 'continue')),
    status              TEXT NOT NULL DEFAULT 'RUNNING' CHECK (status IN ('RUNNING', 'COMPLETED', 'PARTIAL', 'CANCELLED')),
    size                INTEGER NOT NULL CHECK (size > 0),
    retry_of            TEXT REFERENCES run_group (id),
    created_at          INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    finished_at         INTEGER,
    CHECK ((status = 'RUNNING') = (finished_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX run_group_number ON run_group (name, number);
CREATE UNIQUE INDEX run_group_own_number ON run_group (name, number) WHERE run_id IS NULL;
CREATE INDEX run_group_open ON run_group (id) WHERE finished_at IS NULL;
CREATE INDEX run_group_retries ON run_group (retry_of) WHERE retry_of IS NOT NULL;

CREATE TABLE run_new (
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
    -- INV-004: rank is the priority, or 0 for all under `aging`, whose constant rank is then the position (R-03).
    rank                INTEGER NOT NULL DEFAULT 0,
    position            INTEGER NOT NULL,
    params              TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(params)),
    attempt             INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0),
    retry_of            TEXT REFERENCES run (id),
    -- The first run of the chain (DEC-001); null for that run itself.
    chain_id            TEXT REFERENCES run (id),
    group_id            TEXT REFERENCES run_group (id),
    place               INTEGER CHECK (place > 0),
    always              INTEGER NOT NULL DEFAULT 0 CHECK (always IN (0, 1)),
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
    CHECK ((status IN ('DISPATCHED', 'RUNNING') AND lane_id <> 0) <= (worker_id IS NOT NULL AND slot IS NOT NULL AND epoch IS NOT NULL)),
    CHECK ((status = 'RUNNING') <= (started_at IS NOT NULL)),
    CHECK (waiting_for IS NULL OR status = 'QUEUED'),
    CHECK (not_before IS NULL OR waiting_for IS NOT NULL),
    CHECK (lane_id <> 0 OR status <> 'QUEUED' OR waiting_for IS NOT NULL),
    CHECK ((group_id IS NULL) = (place IS NULL)),
    CHECK (trigger <> 'schedule' OR scheduled_for IS NOT NULL)
) STRICT;

INSERT INTO run_new (id, job_id, number, version, trigger, slot_key, scheduled_for, covers_to, count, status, reason, waiting_for,
    not_before, expires_at, predecessor_id, lane_id, priority, rank, position, params, attempt, retry_of, forced, created_at,
    first_dispatched_at, started_at, finished_at, cancel_requested_at, cancel_reason, worker_id, slot, epoch, losses, error,
    result_summary, decisions)
SELECT id, job_id, number, version, trigger, slot_key, scheduled_for, covers_to, count, status, reason, waiting_for,
    not_before, expires_at, predecessor_id, lane_id, priority, priority, position << 10, params, attempt, retry_of, forced, created_at,
    first_dispatched_at, started_at, finished_at, cancel_requested_at, cancel_reason, worker_id, slot, epoch, losses, error,
    result_summary, decisions
FROM run;

DROP TABLE run;
ALTER TABLE run_new RENAME TO run;

-- R-05: the identity of a fire, of a backfilled instant, of an automatic retry, of a member of a group.
CREATE UNIQUE INDEX run_fire ON run (job_id, slot_key) WHERE slot_key IS NOT NULL;
CREATE UNIQUE INDEX run_backfill ON run (job_id, scheduled_for) WHERE trigger = 'backfill';
CREATE UNIQUE INDEX run_retried ON run (retry_of) WHERE trigger = 'retry';
CREATE UNIQUE INDEX run_place ON run (group_id, place, attempt) WHERE group_id IS NOT NULL;
CREATE UNIQUE INDEX run_number ON run (job_id, number);
-- INV-003: one run in each slot.
CREATE UNIQUE INDEX run_slot ON run (worker_id, slot) WHERE status IN ('DISPATCHED', 'RUNNING');
-- R-02, R-03, INV-004: what may be claimed, in order.
CREATE INDEX run_ready ON run (lane_id, rank DESC, position, created_at, id) WHERE status = 'QUEUED' AND waiting_for IS NULL;
-- What waits, in the order of the queue: a page of it and a move among it are as quick as among what is ready.
CREATE INDEX run_held ON run (rank DESC, position, created_at, id) WHERE status = 'QUEUED' AND waiting_for IS NOT NULL;
CREATE INDEX run_released ON run (not_before) WHERE status = 'QUEUED' AND not_before IS NOT NULL;
CREATE INDEX run_expiring ON run (expires_at) WHERE status = 'QUEUED' AND expires_at IS NOT NULL;
CREATE INDEX run_unfinished ON run (job_id, id) WHERE finished_at IS NULL;
CREATE INDEX run_waiting ON run (job_id, waiting_for, id) WHERE waiting_for IS NOT NULL;
CREATE INDEX run_following ON run (predecessor_id) WHERE waiting_for IS NOT NULL AND predecessor_id IS NOT NULL;
CREATE INDEX run_cancelling ON run (cancel_requested_at) WHERE cancel_requested_at IS NOT NULL AND finished_at IS NULL;
-- Without these two, deleting a run would read the whole table for runs that point at it.
CREATE INDEX run_retries ON run (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX run_chain ON run (chain_id) WHERE chain_id IS NOT NULL;
CREATE INDEX run_pruning ON run (job_id, status, finished_at) WHERE finished_at IS NOT NULL;

CREATE TRIGGER inv_001 BEFORE UPDATE OF params, first_dispatched_at ON run
WHEN OLD.first_dispatched_at IS NOT NULL
  AND (NEW.params IS DISTINCT FROM OLD.params OR NEW.first_dispatched_at IS DISTINCT FROM OLD.first_dispatched_at)
BEGIN SELECT RAISE(ABORT, 'INV-001'); END;

CREATE TRIGGER run_final BEFORE UPDATE ON run
WHEN OLD.finished_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a finished run never changes'); END;

CREATE TRIGGER run_transition BEFORE UPDATE OF status ON run
WHEN NEW.status <> OLD.status AND (OLD.status || '>' || NEW.status) NOT IN (
    'QUEUED>DISPATCHED', 'QUEUED>RUNNING', 'QUEUED>SKIPPED', 'QUEUED>CANCELLED',
    'DISPATCHED>RUNNING', 'DISPATCHED>QUEUED', 'DISPATCHED>FAILED', 'DISPATCHED>SKIPPED', 'DISPATCHED>CANCELLED',
    'RUNNING>COMPLETED', 'RUNNING>FAILED', 'RUNNING>CANCELLED')
BEGIN SELECT RAISE(ABORT, 'no such transition'); END;

CREATE TRIGGER run_identity BEFORE UPDATE OF id, job_id, number, version, trigger, slot_key, scheduled_for, attempt, retry_of, chain_id,
    group_id, place, always, created_at ON run
WHEN NEW.id IS DISTINCT FROM OLD.id
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.number IS DISTINCT FROM OLD.number
  OR NEW.version IS DISTINCT FROM OLD.version
  OR NEW.trigger IS DISTINCT FROM OLD.trigger
  OR NEW.slot_key IS DISTINCT FROM OLD.slot_key
  OR NEW.scheduled_for IS DISTINCT FROM OLD.scheduled_for
  OR NEW.attempt IS DISTINCT FROM OLD.attempt
  OR NEW.retry_of IS DISTINCT FROM OLD.retry_of
  OR NEW.chain_id IS DISTINCT FROM OLD.chain_id
  OR NEW.group_id IS DISTINCT FROM OLD.group_id
  OR NEW.place IS DISTINCT FROM OLD.place
  OR NEW.always IS DISTINCT FROM OLD.always
  OR NEW.created_at IS DISTINCT FROM OLD.created_at
BEGIN SELECT RAISE(ABORT, 'INV-005'); END;

-- INV-006: a group is final only when all of its members are, and then never changes.
CREATE TRIGGER inv_006 BEFORE UPDATE ON run_group
WHEN OLD.finished_at IS NOT NULL OR (NEW.finished_at IS NOT NULL AND (
    EXISTS (SELECT 1 FROM run WHERE group_id = OLD.id AND finished_at IS NULL)
    OR (SELECT count(DISTINCT place) FROM run WHERE group_id = OLD.id) <> OLD.size))
BEGIN SELECT RAISE(ABORT, 'INV-006'); END;

CREATE TRIGGER inv_006_member BEFORE INSERT ON run
WHEN NEW.group_id IS NOT NULL AND EXISTS (SELECT 1 FROM run_group WHERE id = NEW.group_id AND finished_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'INV-006'); END;

-- Direct calls (R-13): who waits for a slot, and who has one but has not started. First come, first served, before the queue:
-- `turn` is the order in which they came, whatever the clock says. Without a version the slot itself is what is asked for.
CREATE TABLE direct_wait (
    id         TEXT PRIMARY KEY,
    turn       INTEGER NOT NULL UNIQUE,
    job_id     TEXT REFERENCES job (id),
    version    INTEGER,
    lane_id    INTEGER NOT NULL REFERENCES lane (id),
    params     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(params)),
    boot_id    TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    pid_start  INTEGER NOT NULL,
    asked_at   INTEGER NOT NULL,
    worker_id  TEXT REFERENCES worker (id),
    slot       INTEGER,
    epoch      INTEGER REFERENCES process (epoch),
    FOREIGN KEY (job_id, version) REFERENCES job_version (job_id, version),
    CHECK (version IS NULL OR job_id IS NOT NULL),
    CHECK ((slot IS NULL) = (epoch IS NULL) AND (slot IS NULL) = (worker_id IS NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX direct_wait_slot ON direct_wait (worker_id, slot) WHERE slot IS NOT NULL;

-- An execution without a run is a direct call: it carries what the run would, and who called.
CREATE TABLE execution_new (
    id          TEXT PRIMARY KEY,
    run_id      TEXT UNIQUE REFERENCES run (id),
    job_id      TEXT REFERENCES job (id),
    version     INTEGER,
    lane_id     INTEGER REFERENCES lane (id),
    params      TEXT CHECK (json_valid(params)),
    caller      TEXT,
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
    CHECK ((run_id IS NULL) = (caller IS NOT NULL)),
    CHECK ((run_id IS NULL) = (lane_id IS NOT NULL)),
    CHECK (run_id IS NULL OR job_id IS NOT NULL),
    CHECK ((finished_at IS NULL) = (status IS NULL)),
    CHECK (length(artifacts) <= 16384)
) STRICT, WITHOUT ROWID;

INSERT INTO execution_new (id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at, finished_at, status, exit_code,
    error, artifacts)
SELECT id, run_id, job_id, worker_id, slot, epoch, boot_id, pid, pid_start, started_at, finished_at, status, exit_code, error, artifacts
FROM execution;

DROP TABLE execution;
ALTER TABLE execution_new RENAME TO execution;

CREATE UNIQUE INDEX execution_slot ON execution (worker_id, slot) WHERE finished_at IS NULL;
CREATE INDEX execution_job ON execution (job_id, started_at);
CREATE INDEX execution_direct ON execution (job_id, id) WHERE run_id IS NULL;

CREATE TRIGGER inv_002 BEFORE UPDATE ON execution
WHEN OLD.finished_at IS NOT NULL
  OR NEW.id IS DISTINCT FROM OLD.id
  OR NEW.run_id IS DISTINCT FROM OLD.run_id
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.version IS DISTINCT FROM OLD.version
  OR NEW.lane_id IS DISTINCT FROM OLD.lane_id
  OR NEW.params IS DISTINCT FROM OLD.params
  OR NEW.caller IS DISTINCT FROM OLD.caller
  OR NEW.worker_id IS DISTINCT FROM OLD.worker_id
  OR NEW.slot IS DISTINCT FROM OLD.slot
  OR NEW.epoch IS DISTINCT FROM OLD.epoch
  OR NEW.boot_id IS DISTINCT FROM OLD.boot_id
  OR NEW.pid IS DISTINCT FROM OLD.pid
  OR NEW.pid_start IS DISTINCT FROM OLD.pid_start
  OR NEW.started_at IS DISTINCT FROM OLD.started_at
BEGIN SELECT RAISE(ABORT, 'INV-002'); END;

-- Who carries an unfinished direct call: its execution never changes, but after a restart another process carries it (R-23).
CREATE TABLE direct_hold (
    execution_id        TEXT PRIMARY KEY REFERENCES execution (id),
    epoch               INTEGER NOT NULL REFERENCES process (epoch),
    cancel_requested_at INTEGER
) STRICT, WITHOUT ROWID;

-- INV-003 between direct calls and runs: the unique indexes see only their own kind.
CREATE TRIGGER inv_003_dispatched BEFORE UPDATE OF slot ON direct_wait
WHEN NEW.slot IS NOT NULL AND (
    EXISTS (SELECT 1 FROM run WHERE worker_id = NEW.worker_id AND slot = NEW.slot AND status IN ('DISPATCHED', 'RUNNING'))
    OR EXISTS (SELECT 1 FROM execution WHERE worker_id = NEW.worker_id AND slot = NEW.slot AND finished_at IS NULL))
BEGIN SELECT RAISE(ABORT, 'INV-003'); END;

CREATE TRIGGER inv_003_direct BEFORE INSERT ON execution
WHEN NEW.run_id IS NULL
  AND EXISTS (SELECT 1 FROM run WHERE worker_id = NEW.worker_id AND slot = NEW.slot AND status IN ('DISPATCHED', 'RUNNING'))
BEGIN SELECT RAISE(ABORT, 'INV-003'); END;

-- A thread that outlived its run's timeout keeps slot and pools until it returns (section 7).
CREATE TABLE abandoned (
    run_id  TEXT PRIMARY KEY,
    lane_id INTEGER NOT NULL REFERENCES lane (id),
    slot    INTEGER NOT NULL,
    epoch   INTEGER NOT NULL REFERENCES process (epoch)
) STRICT, WITHOUT ROWID;
