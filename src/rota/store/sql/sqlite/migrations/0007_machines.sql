-- Many machines: where a worker lives, what it is labelled with, whether it takes no more work. One folder is one worker.
ALTER TABLE worker ADD COLUMN labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels));
ALTER TABLE worker ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN state TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN draining INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1));
CREATE UNIQUE INDEX worker_name ON worker (name);

-- Until when a process counts as alive by the database's clock unless it says so again; null where its lock alone tells.
ALTER TABLE process ADD COLUMN lease_until INTEGER;

-- The dashboard: what somebody has seen of what needs attention. Quiet while its newest sign is the one that was seen.
CREATE TABLE acknowledgement (
    topic TEXT PRIMARY KEY,
    sign TEXT NOT NULL,
    actor TEXT NOT NULL,
    acknowledged_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The output of runs that share it (`output: database`), in pieces: `part` is the offset of the first byte, `text` the bytes in base64.
CREATE TABLE output (
    run_id TEXT NOT NULL,
    part   INTEGER NOT NULL,
    text   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (run_id, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX output_at ON output (at);

-- What is counted is the sum of a row's parts: on PostgreSQL those who count at the same time have parts of their own, so that no row is hot.
CREATE TABLE counter_new (
    status    TEXT NOT NULL CHECK (status IN ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')),
    worker_id TEXT NOT NULL,
    part      INTEGER NOT NULL DEFAULT 0,
    count     INTEGER NOT NULL,
    PRIMARY KEY (status, worker_id, part)
) STRICT, WITHOUT ROWID;
INSERT INTO counter_new (status, worker_id, count) SELECT status, worker_id, count FROM counter;
DROP TABLE counter;
ALTER TABLE counter_new RENAME TO counter;

-- Jobs that are due at the same instant are fired in the order in which they were made, on whichever database.
DROP INDEX job_due;
CREATE INDEX job_due ON job (next_at, id) WHERE next_at IS NOT NULL;
