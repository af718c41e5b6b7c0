-- Cadence: modes, quiet hours, the shared poll, budgets.

-- R-18: `mode` is the one that the cursor of a job with intervals by mode was planned in, `quiet` the windows that make it dormant
-- (canonical JSON, '' for none); both are null for all other jobs.
ALTER TABLE job ADD COLUMN mode TEXT CHECK (mode IN ('active', 'idle', 'dormant'));
ALTER TABLE job ADD COLUMN quiet TEXT CHECK ((mode IS NULL) = (quiet IS NULL));
-- R-16: the interval that the polled server asked for, until the next poll.
ALTER TABLE job ADD COLUMN suggested INTEGER CHECK (suggested > 0);
-- The boot of the machine that a job at boot has run for, or was made in (R-05).
ALTER TABLE job ADD COLUMN booted TEXT;

CREATE INDEX job_adaptive ON job (mode, quiet) WHERE mode IS NOT NULL;

-- The last activity (R-18): one row, or none.
CREATE TABLE activity (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    at   INTEGER NOT NULL,
    what TEXT NOT NULL
) STRICT;

-- The newest poll (R-16), and the data of the newest one that succeeded: one row, or none.
CREATE TABLE poll (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    run_id     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    ok         INTEGER NOT NULL CHECK (ok IN (0, 1)),
    detail     TEXT NOT NULL,
    good_at    INTEGER,
    data       TEXT CHECK (json_valid(data)),
    CHECK ((good_at IS NULL) = (data IS NULL))
) STRICT;

-- Who waits for a poll: let go, or skipped, all at once.
CREATE INDEX run_polling ON run (id) WHERE waiting_for = 'poll';

-- Budgets (R-19): accounts, what each calendar window of one has used, and what each run was charged. Money in millionths.
CREATE TABLE budget (
    name      TEXT PRIMARY KEY,
    unit      TEXT NOT NULL CHECK (unit IN ('requests', 'runs', 'tokens', 'usd')),
    amount    INTEGER NOT NULL CHECK (amount > 0),
    per       TEXT NOT NULL CHECK (per IN ('minute', 'hour', 'day', 'week', 'month')),
    timezone  TEXT NOT NULL,
    policy    TEXT NOT NULL CHECK (policy IN ('defer', 'skip', 'warn')),
    estimate  INTEGER CHECK (estimate >= 0),
    declared  INTEGER NOT NULL CHECK (declared IN (0, 1))
) STRICT, WITHOUT ROWID;

-- A change of unit, length or zone begins new windows; the old ones stay as they were. `amount` is the limit as it was last,
-- `pruned` the part of `settled` whose entries are gone.
CREATE TABLE budget_window (
    id       INTEGER PRIMARY KEY,
    budget   TEXT NOT NULL REFERENCES budget (name),
    unit     TEXT NOT NULL,
    since    INTEGER NOT NULL,
    until    INTEGER NOT NULL CHECK (until > since),
    amount   INTEGER NOT NULL CHECK (amount > 0),
    settled  INTEGER NOT NULL DEFAULT 0 CHECK (settled >= 0),
    reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    pruned   INTEGER NOT NULL DEFAULT 0 CHECK (pruned BETWEEN 0 AND settled),
    UNIQUE (budget, unit, since, until)
) STRICT;

-- What a run, or a direct call, was charged to a window. `estimate` was reserved for its start (null: it has not passed the
-- gate), `spent` are requests that were counted when they were made; `reserved` covers both until the run has ended and is
-- settled. `measured`: it said what it used; else it was settled at its estimate.
CREATE TABLE budget_entry (
    run_id     TEXT NOT NULL,
    window_id  INTEGER NOT NULL REFERENCES budget_window (id),
    budget     TEXT NOT NULL,
    job_id     TEXT NOT NULL,
    estimate   INTEGER CHECK (estimate >= 0),
    reserved   INTEGER NOT NULL CHECK (reserved >= coalesce(estimate, 0)),
    spent      INTEGER NOT NULL DEFAULT 0 CHECK (spent BETWEEN 0 AND reserved),
    settled    INTEGER CHECK (settled >= spent),
    measured   INTEGER NOT NULL DEFAULT 0 CHECK (measured IN (0, 1)),
    settled_at INTEGER,
    PRIMARY KEY (run_id, window_id),
    CHECK ((settled IS NULL) = (settled_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX budget_entry_open ON budget_entry (run_id) WHERE settled IS NULL;
CREATE INDEX budget_entry_window ON budget_entry (window_id, settled_at);
CREATE INDEX budget_entry_job ON budget_entry (job_id, budget, settled_at) WHERE measured = 1 AND estimate IS NOT NULL;
-- Who waits for room in an account, in the order of the queue.
CREATE INDEX run_budget ON run (rank DESC, position, created_at, id) WHERE waiting_for = 'budget';

-- How many runs there are of each status, as faces show it, and of which worker ('': nobody's), so that no summary counts rows.
-- One update per transaction. Not checked against going below 0: a wrong counter shows in `rota verify` and never stops work.
CREATE TABLE counter (
    status    TEXT NOT NULL CHECK (status IN ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')),
    worker_id TEXT NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (status, worker_id)
) STRICT, WITHOUT ROWID;

INSERT INTO counter (status, worker_id, count)
SELECT iif(status = 'DISPATCHED', 'RUNNING', status) AS shown, coalesce(worker_id, '') AS worker, count(*) FROM run GROUP BY shown, worker;

-- INV-004: what may be claimed, over all lanes in one order: a place, a neighbour or the first few are found without asking each lane.
CREATE INDEX run_order ON run (rank DESC, position, created_at, id, lane_id) WHERE status = 'QUEUED' AND waiting_for IS NULL;
