-- A row's table is its state. `run` is what was intended, written once. `live` is where an unfinished run stands.
-- `ended` is what happened, written once. Keys inside are integers; identifiers stay as they are for everything outside.

ALTER TABLE job ADD COLUMN seq INTEGER;
UPDATE job SET seq = rowid;
CREATE UNIQUE INDEX job_seq ON job (seq);

ALTER TABLE worker ADD COLUMN seq INTEGER;
UPDATE worker SET seq = (SELECT count(*) FROM worker AS other WHERE other.id <= worker.id);
CREATE UNIQUE INDEX worker_seq ON worker (seq);

DROP TRIGGER inv_005;
ALTER TABLE job_version ADD COLUMN job INTEGER REFERENCES job (seq);
UPDATE job_version SET job = (SELECT seq FROM job WHERE job.id = job_version.job_id);
CREATE UNIQUE INDEX job_version_key ON job_version (job, version);
CREATE TRIGGER inv_005 BEFORE UPDATE ON job_version
WHEN OLD.until IS NOT NULL
  OR NEW.job_id IS NOT OLD.job_id OR NEW.job IS NOT OLD.job OR NEW.version IS NOT OLD.version
  OR NEW.spec IS NOT OLD.spec OR NEW.digest IS NOT OLD.digest OR NEW.schedules IS NOT OLD.schedules
  OR NEW.paused IS NOT OLD.paused OR NEW.tzdata IS NOT OLD.tzdata OR NEW.since IS NOT OLD.since
BEGIN SELECT RAISE(ABORT, 'INV-005'); END;

-- Triggers of other tables that name the old tables.
DROP TRIGGER inv_003_dispatched;
DROP TRIGGER inv_006;

CREATE TABLE run_new (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    job           INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    trigger       TEXT NOT NULL,
    slot_key      TEXT,
    scheduled_for INTEGER,
    covers_to     INTEGER CHECK (covers_to > scheduled_for),
    count         INTEGER CHECK (count > 0),
    lane_id       INTEGER NOT NULL DEFAULT 1 REFERENCES lane (id),
    priority      INTEGER NOT NULL DEFAULT 0,
    params        TEXT NOT NULL DEFAULT '{}' CHECK (params = '{}' OR json_valid(params)),
    attempt       INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0),
    retry_of      TEXT REFERENCES run (id),
    -- The first run of the chain; null for that run itself.
    chain_id      TEXT REFERENCES run (id),
    group_id      TEXT REFERENCES run_group (id),
    place         INTEGER CHECK (place > 0),
    always        INTEGER NOT NULL DEFAULT 0 CHECK (always = 0 OR always = 1),
    forced        INTEGER NOT NULL DEFAULT 0 CHECK (forced = 0 OR forced = 1),
    created_at    INTEGER NOT NULL,
    FOREIGN KEY (job, version) REFERENCES job_version (job, version),
    CHECK ((group_id IS NULL) = (place IS NULL)),
    CHECK (trigger <> 'schedule' OR scheduled_for IS NOT NULL)
) STRICT;

-- state: 0 waits for something, 1 ready, 2 dispatched, 3 running. The runs of groups are in lane 0 and take no slot.
-- pid null: the process of the epoch runs it. `adopted_from`: the epoch that it started under, if another process took it over.
CREATE TABLE live (
    run                 INTEGER PRIMARY KEY REFERENCES run (seq),
    job                 INTEGER NOT NULL,
    state               INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),
    waiting_for         TEXT,
    not_before          INTEGER,
    expires_at          INTEGER,
    predecessor_id      TEXT,
    lane_id             INTEGER NOT NULL,
    -- INV-004: rank is the priority, or 0 for all under `aging`, whose constant rank is then the position.
    rank                INTEGER NOT NULL,
    position            INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    first_dispatched_at INTEGER,
    started_at          INTEGER,
    worker              INTEGER REFERENCES worker (seq),
    slot                INTEGER,
    epoch               INTEGER REFERENCES process (epoch),
    adopted_from        INTEGER,
    boot_id             TEXT,
    pid                 INTEGER,
    pid_start           INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason       TEXT,
    losses              INTEGER NOT NULL DEFAULT 0,
    decisions           TEXT CHECK (decisions IS NULL OR json_valid(decisions)),
    CHECK ((state = 0) = (waiting_for IS NOT NULL)),
    CHECK (not_before IS NULL OR state = 0),
    CHECK (lane_id > 0 OR state = 0 OR state = 3),
    CHECK ((slot IS NULL) = (worker IS NULL) AND (slot IS NULL) = (epoch IS NULL)),
    CHECK ((state >= 2 AND lane_id > 0) = (slot IS NOT NULL)),
    CHECK (slot IS NULL OR first_dispatched_at IS NOT NULL),
    CHECK ((state = 3) = (started_at IS NOT NULL)),
    CHECK ((pid IS NULL) = (pid_start IS NULL) AND (pid IS NULL) = (boot_id IS NULL) AND (pid IS NULL OR state = 3))
) STRICT;

-- status: 4 completed, 5 failed, 6 skipped, 7 cancelled.
CREATE TABLE ended (
    run                 INTEGER PRIMARY KEY REFERENCES run (seq),
    job                 INTEGER NOT NULL,
    status              INTEGER NOT NULL CHECK (status BETWEEN 4 AND 7),
    reason              TEXT,
    finished_at         INTEGER NOT NULL,
    first_dispatched_at INTEGER,
    started_at          INTEGER,
    worker              INTEGER,
    slot                INTEGER,
    epoch               INTEGER,
    adopted_from        INTEGER,
    boot_id             TEXT,
    pid                 INTEGER,
    pid_start           INTEGER,
    exit_code           INTEGER,
    error               TEXT,
    result_summary      TEXT,
    artifacts           TEXT CHECK (artifacts IS NULL OR (length(artifacts) <= 16384 AND json_valid(artifacts))),
    predecessor_id      TEXT,
    expires_at          INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason       TEXT,
    losses              INTEGER NOT NULL DEFAULT 0,
    decisions           TEXT,
    CHECK ((status = 4) = (reason IS NULL)),
    CHECK (status <> 4 OR started_at IS NOT NULL),
    CHECK (status <> 6 OR started_at IS NULL)
) STRICT;

-- A direct call has no run. Its row has the fields of a run, and the caller.
CREATE TABLE call (
    id          TEXT PRIMARY KEY,
    job_id      TEXT REFERENCES job (id),
    version     INTEGER,
    lane_id     INTEGER NOT NULL REFERENCES lane (id),
    params      TEXT CHECK (json_valid(params)),
    caller      TEXT NOT NULL,
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

INSERT INTO run_new (id, job, number, version, trigger, slot_key, scheduled_for, covers_to, count, lane_id, priority, params, attempt, retry_of, chain_id,
    group_id, place, always, forced, created_at)
SELECT old.id, job.seq, old.number, old.version, old.trigger, old.slot_key, old.scheduled_for, old.covers_to, old.count, old.lane_id, old.priority,
    old.params, old.attempt, old.retry_of, old.chain_id, old.group_id, old.place, old.always, old.forced, old.created_at
FROM run AS old JOIN job ON job.id = old.job_id ORDER BY old.id;

INSERT INTO live (run, job, state, waiting_for, not_before, expires_at, predecessor_id, lane_id, rank, position, created_at, first_dispatched_at,
    started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start, cancel_requested_at, cancel_reason, losses, decisions)
SELECT run.seq, run.job, CASE old.status WHEN 'RUNNING' THEN 3 WHEN 'DISPATCHED' THEN 2 ELSE old.waiting_for IS NULL END, old.waiting_for,
    old.not_before, old.expires_at, old.predecessor_id, old.lane_id, old.rank, old.position, old.created_at,
    coalesce(old.first_dispatched_at, CASE WHEN old.slot IS NOT NULL THEN old.created_at END), old.started_at,
    (SELECT seq FROM worker WHERE worker.id = old.worker_id), old.slot, old.epoch, nullif(execution.epoch, old.epoch),
    execution.boot_id, execution.pid, execution.pid_start, old.cancel_requested_at, old.cancel_reason, old.losses, nullif(old.decisions, '{}')
FROM run AS old JOIN run_new AS run ON run.id = old.id LEFT JOIN execution ON execution.run_id = old.id
WHERE old.finished_at IS NULL;

INSERT INTO ended (run, job, status, reason, finished_at, first_dispatched_at, started_at, worker, slot, epoch, adopted_from, boot_id, pid, pid_start,
    exit_code, error, result_summary, artifacts, predecessor_id, expires_at, cancel_requested_at, cancel_reason, losses, decisions)
SELECT run.seq, run.job, CASE old.status WHEN 'COMPLETED' THEN 4 WHEN 'FAILED' THEN 5 WHEN 'SKIPPED' THEN 6 ELSE 7 END, old.reason,
    old.finished_at, old.first_dispatched_at, old.started_at, (SELECT seq FROM worker WHERE worker.id = old.worker_id), old.slot, old.epoch,
    nullif(execution.epoch, old.epoch), execution.boot_id, execution.pid, execution.pid_start, execution.exit_code, old.error,
    old.result_summary, execution.artifacts, old.predecessor_id, old.expires_at, old.cancel_requested_at, old.cancel_reason, old.losses,
    nullif(old.decisions, '{}')
FROM run AS old JOIN run_new AS run ON run.id = old.id LEFT JOIN execution ON execution.run_id = old.id
WHERE old.finished_at IS NOT NULL;

INSERT INTO call (id, job_id, version, lane_id, params, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at, finished_at, status,
    exit_code, error, artifacts)
SELECT id, job_id, version, lane_id, params, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at, finished_at, status, exit_code,
    error, artifacts
FROM execution WHERE run_id IS NULL;

-- The process of an unfinished direct call. The row of the call never changes; after a restart another process executes it.
CREATE TABLE direct_hold_new (
    execution_id        TEXT PRIMARY KEY REFERENCES call (id),
    epoch               INTEGER NOT NULL REFERENCES process (epoch),
    cancel_requested_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO direct_hold_new SELECT execution_id, epoch, cancel_requested_at FROM direct_hold;
DROP TABLE direct_hold;
ALTER TABLE direct_hold_new RENAME TO direct_hold;
-- The feed names runs by their keys from now on.
DELETE FROM change WHERE kind <> 'job';
DROP TABLE execution;
DROP TABLE run;
ALTER TABLE run_new RENAME TO run;

-- Unique: the identity of a fire, of a backfilled instant, of an automatic retry, of a member of a group.
CREATE UNIQUE INDEX run_number ON run (job, number);
CREATE UNIQUE INDEX run_fire ON run (job, slot_key) WHERE slot_key IS NOT NULL;
CREATE UNIQUE INDEX run_backfill ON run (job, scheduled_for) WHERE trigger = 'backfill';
CREATE UNIQUE INDEX run_retried ON run (retry_of) WHERE trigger = 'retry';
CREATE UNIQUE INDEX run_place ON run (group_id, place, attempt) WHERE group_id IS NOT NULL;
CREATE INDEX run_retries ON run (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX run_chain ON run (chain_id) WHERE chain_id IS NOT NULL;

-- The claimable runs in queue order, by lane and over all lanes with pools.
CREATE INDEX live_ready ON live (lane_id, rank DESC, position, created_at, run) WHERE state = 1;
CREATE INDEX live_order ON live (rank DESC, position, created_at, run, lane_id) WHERE state = 1 AND lane_id > 1;
CREATE INDEX live_held ON live (rank DESC, position, created_at, run) WHERE state = 0;
CREATE INDEX live_budget ON live (rank DESC, position, created_at, run) WHERE waiting_for = 'budget';
CREATE INDEX live_polling ON live (run) WHERE waiting_for = 'poll';
CREATE INDEX live_waiting ON live (job, waiting_for, run) WHERE state = 0;
CREATE INDEX live_following ON live (predecessor_id) WHERE predecessor_id IS NOT NULL;
CREATE INDEX live_released ON live (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX live_expiring ON live (expires_at) WHERE state < 2 AND expires_at IS NOT NULL;
CREATE INDEX live_cancelling ON live (cancel_requested_at) WHERE cancel_requested_at IS NOT NULL;
CREATE INDEX live_job ON live (job, run);
-- INV-003: one run in each slot.
CREATE UNIQUE INDEX live_slot ON live (worker, slot) WHERE state >= 2;
CREATE INDEX ended_pruning ON ended (job, status, finished_at);
CREATE UNIQUE INDEX call_slot ON call (worker_id, slot) WHERE finished_at IS NULL;
CREATE INDEX call_job ON call (job_id, id);

-- INV-005: a run is what it was made as. INV-001: its params are frozen from the first dispatch on.
CREATE TRIGGER run_is_kept BEFORE UPDATE ON run
BEGIN
    SELECT CASE
        WHEN NEW.seq IS NOT OLD.seq OR NEW.id IS NOT OLD.id OR NEW.job IS NOT OLD.job OR NEW.number IS NOT OLD.number
            OR NEW.version IS NOT OLD.version OR NEW.trigger IS NOT OLD.trigger OR NEW.slot_key IS NOT OLD.slot_key
            OR NEW.scheduled_for IS NOT OLD.scheduled_for OR NEW.covers_to IS NOT OLD.covers_to OR NEW.count IS NOT OLD.count
            OR NEW.lane_id IS NOT OLD.lane_id OR NEW.attempt IS NOT OLD.attempt OR NEW.retry_of IS NOT OLD.retry_of
            OR NEW.chain_id IS NOT OLD.chain_id OR NEW.group_id IS NOT OLD.group_id OR NEW.place IS NOT OLD.place
            OR NEW.always IS NOT OLD.always OR NEW.forced IS NOT OLD.forced OR NEW.created_at IS NOT OLD.created_at
            THEN RAISE(ABORT, 'INV-005')
        WHEN NEW.params IS NOT OLD.params AND EXISTS (SELECT 1 FROM live WHERE run = OLD.seq AND first_dispatched_at IS NOT NULL)
            THEN RAISE(ABORT, 'INV-001')
        WHEN NOT EXISTS (SELECT 1 FROM live WHERE run = OLD.seq)
            THEN RAISE(ABORT, 'a finished run never changes')
    END;
END;

CREATE TRIGGER run_edited AFTER UPDATE OF params, priority ON run
WHEN NEW.params <> OLD.params OR NEW.priority <> OLD.priority
BEGIN INSERT INTO change (kind, subject) VALUES ('run.changed', NEW.seq); END;

-- The moves of model/states.TRANSITIONS, in the triggers live_is_new, live_moves and ended_was_live.
CREATE TRIGGER live_is_new BEFORE INSERT ON live
WHEN (NEW.state >= 2 AND NEW.lane_id > 0) OR EXISTS (SELECT 1 FROM ended WHERE run = NEW.run)
BEGIN SELECT RAISE(ABORT, 'no such transition'); END;

CREATE TRIGGER live_made AFTER INSERT ON live
BEGIN
    INSERT INTO change (kind, subject)
    VALUES (iif(NEW.state = 3, 'run.begun', 'run.created'), NEW.run);
END;

CREATE TRIGGER live_moves BEFORE UPDATE OF run, job, state, lane_id, created_at, first_dispatched_at, started_at, worker, slot, epoch, boot_id,
    pid, pid_start, adopted_from ON live
BEGIN
    SELECT CASE
        WHEN NEW.run IS NOT OLD.run OR NEW.job IS NOT OLD.job OR NEW.lane_id IS NOT OLD.lane_id OR NEW.created_at IS NOT OLD.created_at
            THEN RAISE(ABORT, 'INV-005')
        WHEN OLD.first_dispatched_at IS NOT NULL AND NEW.first_dispatched_at IS NOT OLD.first_dispatched_at
            THEN RAISE(ABORT, 'INV-001')
        WHEN OLD.state = 3 AND (NEW.state <> 3 OR NEW.started_at IS NOT OLD.started_at OR NEW.worker IS NOT OLD.worker
            OR NEW.slot IS NOT OLD.slot OR NEW.pid IS NOT OLD.pid OR NEW.pid_start IS NOT OLD.pid_start OR NEW.boot_id IS NOT OLD.boot_id
            OR NEW.adopted_from IS NOT iif(NEW.epoch IS OLD.epoch, OLD.adopted_from, coalesce(OLD.adopted_from, OLD.epoch)))
            THEN RAISE(ABORT, 'INV-002')
        WHEN OLD.state = 2 AND NEW.state >= 2 AND (NEW.slot IS NOT OLD.slot OR NEW.worker IS NOT OLD.worker OR NEW.epoch IS NOT OLD.epoch)
            THEN RAISE(ABORT, 'INV-003')
        WHEN OLD.state = 0 AND NEW.state >= 2 AND NEW.lane_id > 0
            THEN RAISE(ABORT, 'no such transition')
        WHEN NEW.slot IS NOT NULL AND OLD.slot IS NULL AND (
            EXISTS (SELECT 1 FROM call WHERE finished_at IS NULL AND slot = NEW.slot
                AND worker_id = (SELECT id FROM worker WHERE seq = NEW.worker))
            OR EXISTS (SELECT 1 FROM direct_wait WHERE slot IS NOT NULL AND slot = NEW.slot
                AND worker_id = (SELECT id FROM worker WHERE seq = NEW.worker)))
            THEN RAISE(ABORT, 'INV-003')
    END;
END;

CREATE TRIGGER live_moved AFTER UPDATE OF state, waiting_for, cancel_requested_at ON live
WHEN NEW.state <> OLD.state OR NEW.waiting_for IS NOT OLD.waiting_for OR NEW.cancel_requested_at IS NOT OLD.cancel_requested_at
BEGIN
    INSERT INTO change (kind, subject)
    VALUES (CASE WHEN NEW.state = 3 AND OLD.state <> 3 THEN 'run.started' WHEN NEW.state = 0 THEN 'run.waiting' ELSE 'run.changed' END, NEW.run);
END;

CREATE TRIGGER live_ends BEFORE DELETE ON live
WHEN NOT EXISTS (SELECT 1 FROM ended WHERE run = OLD.run)
BEGIN SELECT RAISE(ABORT, 'no such transition'); END;

-- INV-002: an end follows from a legal state and repeats the start as it was written. A run that was never live was skipped.
CREATE TRIGGER ended_was_live BEFORE INSERT ON ended
WHEN EXISTS (SELECT 1 FROM ended WHERE run = NEW.run) OR NOT EXISTS (SELECT 1 FROM live WHERE run = NEW.run AND job = NEW.job AND started_at IS NEW.started_at AND worker IS NEW.worker
        AND slot IS NEW.slot AND epoch IS NEW.epoch AND adopted_from IS NEW.adopted_from AND pid IS NEW.pid AND pid_start IS NEW.pid_start
        AND boot_id IS NEW.boot_id AND first_dispatched_at IS NEW.first_dispatched_at
        AND (state = 3 AND NEW.status <> 6 OR state = 2 AND NEW.status > 4 OR NEW.status > 5))
    AND NOT (NEW.status = 6 AND NEW.worker IS NULL AND NEW.started_at IS NULL AND NOT EXISTS (SELECT 1 FROM live WHERE run = NEW.run))
BEGIN SELECT RAISE(ABORT, 'no such transition'); END;

CREATE TRIGGER ended_made AFTER INSERT ON ended
BEGIN
    INSERT INTO change (kind, subject)
    VALUES (iif(EXISTS (SELECT 1 FROM live WHERE live.run = NEW.run), 'run.finished', 'run.skipped'), NEW.run);
    DELETE FROM live WHERE run = NEW.run;
END;

CREATE TRIGGER ended_is_final BEFORE UPDATE ON ended
BEGIN SELECT RAISE(ABORT, 'a finished run never changes'); END;

-- `ended` has no foreign keys to worker and process: they would cost two lookups for every end.
CREATE TRIGGER worker_stays BEFORE DELETE ON worker
WHEN EXISTS (SELECT 1 FROM ended WHERE worker = OLD.seq)
BEGIN SELECT RAISE(ABORT, 'a worker that is named elsewhere stays'); END;

CREATE TRIGGER worker_keeps_its_key BEFORE UPDATE OF id, seq ON worker
WHEN NEW.id IS NOT OLD.id OR NEW.seq IS NOT OLD.seq
BEGIN SELECT RAISE(ABORT, 'a worker keeps its identity'); END;

CREATE TRIGGER process_stays BEFORE DELETE ON process
WHEN EXISTS (SELECT 1 FROM ended WHERE epoch = OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'a process that is named elsewhere stays'); END;

CREATE TRIGGER process_keeps_its_epoch BEFORE UPDATE OF epoch ON process
WHEN NEW.epoch IS NOT OLD.epoch
BEGIN SELECT RAISE(ABORT, 'a process keeps its epoch'); END;

-- INV-002: only the end of a call is written, once. INV-003: one run or call in each slot.
CREATE TRIGGER call_is_kept BEFORE UPDATE ON call
WHEN OLD.finished_at IS NOT NULL
  OR NEW.id IS NOT OLD.id OR NEW.job_id IS NOT OLD.job_id OR NEW.version IS NOT OLD.version OR NEW.lane_id IS NOT OLD.lane_id
  OR NEW.params IS NOT OLD.params OR NEW.caller IS NOT OLD.caller OR NEW.worker_id IS NOT OLD.worker_id OR NEW.slot IS NOT OLD.slot
  OR NEW.epoch IS NOT OLD.epoch OR NEW.boot_id IS NOT OLD.boot_id OR NEW.pid IS NOT OLD.pid OR NEW.pid_start IS NOT OLD.pid_start
  OR NEW.started_at IS NOT OLD.started_at
BEGIN SELECT RAISE(ABORT, 'INV-002'); END;

CREATE TRIGGER inv_003_call BEFORE INSERT ON call
WHEN NEW.finished_at IS NULL AND EXISTS (
    SELECT 1 FROM live WHERE state >= 2 AND slot = NEW.slot AND worker = (SELECT seq FROM worker WHERE id = NEW.worker_id))
BEGIN SELECT RAISE(ABORT, 'INV-003'); END;

CREATE TRIGGER inv_003_dispatched BEFORE UPDATE OF slot ON direct_wait
WHEN NEW.slot IS NOT NULL AND (
    EXISTS (SELECT 1 FROM live WHERE state >= 2 AND slot = NEW.slot AND worker = (SELECT seq FROM worker WHERE id = NEW.worker_id))
    OR EXISTS (SELECT 1 FROM call WHERE finished_at IS NULL AND slot = NEW.slot AND worker_id = NEW.worker_id))
BEGIN SELECT RAISE(ABORT, 'INV-003'); END;

-- INV-006: a group is final only when all of its members are, and then never changes.
CREATE TRIGGER inv_006 BEFORE UPDATE ON run_group
WHEN OLD.finished_at IS NOT NULL OR (NEW.finished_at IS NOT NULL AND (
    EXISTS (SELECT 1 FROM run CROSS JOIN live ON live.run = run.seq WHERE run.group_id = OLD.id)
    OR (SELECT count(DISTINCT place) FROM run WHERE group_id = OLD.id) <> OLD.size))
BEGIN SELECT RAISE(ABORT, 'INV-006'); END;

CREATE TRIGGER inv_006_member BEFORE INSERT ON run
WHEN NEW.group_id IS NOT NULL AND EXISTS (SELECT 1 FROM run_group WHERE id = NEW.group_id AND finished_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'INV-006'); END;

-- The claimable runs of all lanes: two indexes, merged in one order.
CREATE VIEW ready AS
SELECT run, lane_id, rank, position, created_at FROM live INDEXED BY live_ready WHERE state = 1 AND lane_id = 1
UNION ALL
SELECT run, lane_id, rank, position, created_at FROM live INDEXED BY live_order WHERE state = 1 AND lane_id > 1;

-- All queued runs, waiting ones included.
CREATE VIEW queued AS
SELECT run, lane_id, rank, position, created_at FROM live INDEXED BY live_ready WHERE state = 1 AND lane_id = 1
UNION ALL
SELECT run, lane_id, rank, position, created_at FROM live INDEXED BY live_order WHERE state = 1 AND lane_id > 1
UNION ALL
SELECT run, lane_id, rank, position, created_at FROM live INDEXED BY live_held WHERE state = 0;

-- One row a run, for everything outside the hot path.
CREATE VIEW run_now AS
SELECT run.seq, run.id, job.id AS job_id, job.name AS job, run.number, run.version, run.trigger, run.slot_key, run.scheduled_for, run.covers_to,
    run.count,
    CASE coalesce(ended.status, live.state) WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' WHEN 7 THEN 'CANCELLED'
        WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END AS status,
    ended.reason, live.waiting_for, live.not_before, coalesce(ended.expires_at, live.expires_at) AS expires_at,
    coalesce(ended.predecessor_id, live.predecessor_id) AS predecessor_id, run.lane_id, run.priority,
    coalesce(live.rank, run.priority) AS rank, coalesce(live.position, run.created_at) AS position, run.params, run.attempt, run.retry_of,
    run.chain_id, run.group_id, run.place, run.always, run.forced, run.created_at,
    coalesce(ended.first_dispatched_at, live.first_dispatched_at) AS first_dispatched_at,
    coalesce(ended.started_at, live.started_at) AS started_at, ended.finished_at,
    coalesce(ended.cancel_requested_at, live.cancel_requested_at) AS cancel_requested_at,
    coalesce(ended.cancel_reason, live.cancel_reason) AS cancel_reason,
    (SELECT worker.id FROM worker WHERE worker.seq = coalesce(ended.worker, live.worker)) AS worker_id,
    coalesce(ended.slot, live.slot) AS slot, coalesce(ended.epoch, live.epoch) AS epoch, coalesce(ended.losses, live.losses) AS losses,
    ended.exit_code, ended.error, ended.result_summary, ended.artifacts, ended.artifacts -> '$.usage' AS usage,
    ended.artifacts -> '$.denied_tools' AS denied_tools, ended.artifacts ->> '$.session_id' AS session_id,
    coalesce(ended.decisions, live.decisions, '{}') AS decisions
FROM run JOIN job ON job.seq = run.job LEFT JOIN live ON live.run = run.seq LEFT JOIN ended ON ended.run = run.seq;

-- The audit record of every start: of a run, or of a direct call.
CREATE VIEW execution AS
SELECT run.id, run.id AS run_id, job.id AS job_id, run.version, NULL AS lane_id, NULL AS params, NULL AS caller,
    (SELECT worker.id FROM worker WHERE worker.seq = ended.worker) AS worker_id, ended.slot,
    coalesce(ended.adopted_from, ended.epoch) AS epoch,
    coalesce(ended.boot_id, (SELECT process.boot_id FROM process WHERE process.epoch = ended.epoch)) AS boot_id,
    coalesce(ended.pid, (SELECT process.pid FROM process WHERE process.epoch = ended.epoch)) AS pid,
    coalesce(ended.pid_start, (SELECT process.pid_start FROM process WHERE process.epoch = ended.epoch)) AS pid_start,
    ended.started_at, ended.finished_at,
    CASE ended.status WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' ELSE 'CANCELLED' END AS status,
    ended.exit_code, ended.error, ended.artifacts
FROM ended JOIN run ON run.seq = ended.run JOIN job ON job.seq = ended.job
WHERE ended.started_at IS NOT NULL AND ended.slot IS NOT NULL
UNION ALL
SELECT run.id, run.id, job.id, run.version, NULL, NULL, NULL, (SELECT worker.id FROM worker WHERE worker.seq = live.worker), live.slot,
    coalesce(live.adopted_from, live.epoch),
    coalesce(live.boot_id, (SELECT process.boot_id FROM process WHERE process.epoch = live.epoch)),
    coalesce(live.pid, (SELECT process.pid FROM process WHERE process.epoch = live.epoch)),
    coalesce(live.pid_start, (SELECT process.pid_start FROM process WHERE process.epoch = live.epoch)),
    live.started_at, NULL, NULL, NULL, NULL, NULL
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job
WHERE live.state = 3 AND live.slot IS NOT NULL
UNION ALL
SELECT id, NULL, job_id, version, lane_id, params, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at, finished_at, status,
    exit_code, error, artifacts
FROM call;
