-- What needs attention, as people were notified of it; and deliveries about something other than a run.

-- `subject` is the run, or what else a delivery is about; `payload` is its message, if no run is; deliveries of a `line` go in order.
CREATE TABLE delivery_new (
    id          TEXT PRIMARY KEY,
    run_id      TEXT REFERENCES run (id) ON DELETE CASCADE,
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
    subject     TEXT NOT NULL,
    payload     TEXT CHECK (payload IS NULL OR json_valid(payload)),
    line        TEXT,
    CHECK ((status = 'PENDING') = (next_at IS NOT NULL)),
    CHECK ((status = 'PENDING') = (finished_at IS NULL)),
    CHECK (run_id IS NOT NULL OR payload IS NOT NULL),
    UNIQUE (subject, event, target)
) STRICT, WITHOUT ROWID;

INSERT INTO delivery_new
SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error, run_id, NULL, NULL
FROM delivery;
DROP TABLE delivery;
ALTER TABLE delivery_new RENAME TO delivery;

CREATE INDEX delivery_due ON delivery (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX delivery_made ON delivery (created_at);
CREATE INDEX delivery_run ON delivery (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX delivery_line ON delivery (line, id) WHERE next_at IS NOT NULL AND line IS NOT NULL;

-- The items as of the last look. `message`: the message that reported this mark; null while it waits for others that belong together.
CREATE TABLE attention (
    topic       TEXT PRIMARY KEY,
    mark        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    what        TEXT NOT NULL,
    command     TEXT NOT NULL,
    subject     TEXT NOT NULL,
    since       INTEGER NOT NULL,
    absent_at   INTEGER,
    message     TEXT
) STRICT, WITHOUT ROWID;
