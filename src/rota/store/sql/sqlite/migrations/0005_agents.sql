-- Agents: sessions, work items, provider holds, what agents make.

-- Providers that took no more work (section 8): until then the pool of that name has no room. `until` null: that is over, and `refusals`,
-- how often in a row nobody could say until when, is kept until a run succeeds. `stated`: the provider said until when.
CREATE TABLE provider_hold (
    pool     TEXT PRIMARY KEY,
    until    INTEGER,
    stated   INTEGER NOT NULL CHECK (stated IN (0, 1)),
    refusals INTEGER NOT NULL CHECK (refusals >= 0),
    why      TEXT NOT NULL,
    run_id   TEXT,
    set_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was made with the tools: by whom, by which run of it, how many made jobs lie above it, until when it lasts; null for jobs of a file.
ALTER TABLE job ADD COLUMN made_by TEXT;
ALTER TABLE job ADD COLUMN made_at INTEGER CHECK ((made_by IS NULL) = (made_at IS NULL));
ALTER TABLE job ADD COLUMN made_by_run TEXT;
ALTER TABLE job ADD COLUMN depth INTEGER NOT NULL DEFAULT 0 CHECK (depth >= 0);
ALTER TABLE job ADD COLUMN expires_at INTEGER;
-- Since when it waits for a person's approval: it then has no due instants (R-29). `approved`: the digest of what a person has seen.
ALTER TABLE job ADD COLUMN provisional_at INTEGER CHECK (provisional_at IS NULL OR (next_at IS NULL AND made_by IS NOT NULL));
ALTER TABLE job ADD COLUMN approved TEXT;
ALTER TABLE job ADD COLUMN approved_at INTEGER CHECK ((approved IS NULL) = (approved_at IS NULL));

CREATE INDEX job_made ON job (made_by) WHERE made_by IS NOT NULL;
CREATE INDEX job_provisional ON job (provisional_at) WHERE provisional_at IS NOT NULL;
CREATE INDEX job_expiring ON job (expires_at) WHERE expires_at IS NOT NULL AND retired_at IS NULL;

-- How much each maker made within the last hour; older rows go with the next one.
CREATE TABLE making (
    id    TEXT PRIMARY KEY,
    maker TEXT NOT NULL,
    kind  TEXT NOT NULL CHECK (kind IN ('job', 'run')),
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX making_recent ON making (maker, kind, at);

-- The newest session of each job whose runs go on with one (`session: resume`), and what it has cost in all: the figures of some
-- programs are totals. Money in millionths of a dollar.
CREATE TABLE agent_session (
    job_id     TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
    adapter    TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    usd        INTEGER NOT NULL CHECK (usd >= 0),
    tokens_in  INTEGER NOT NULL CHECK (tokens_in >= 0),
    tokens_out INTEGER NOT NULL CHECK (tokens_out >= 0),
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The git worktrees of runs and direct calls (`workspace: worktree`), stored before they are made, so that none is ever forgotten.
-- `base` is the commit that it began at. `kept_at` null: in use, or its run has ended and nobody has looked at it yet. A row may
-- outlive its run: what is kept is never removed by rota.
CREATE TABLE worktree (
    path       TEXT PRIMARY KEY,
    run_id     TEXT NOT NULL,
    handle     TEXT NOT NULL,
    repository TEXT NOT NULL,
    branch     TEXT NOT NULL,
    base       TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    kept_at    INTEGER,
    kept_why   TEXT,
    CHECK ((kept_at IS NULL) = (kept_why IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX worktree_run ON worktree (run_id, made_at);
CREATE INDEX worktree_open ON worktree (run_id) WHERE kept_at IS NULL;

-- What runs and direct calls claimed of their work sources (003). The wish is stored before the source is asked, so that a claim whose
-- answer never came is given back too; `source` is its definition, with secrets by name alone. A claim is open while its run has it
-- (`asking`, `held`); what its source is still to be told waits until `not_before`. `failed`: the run failed at its work on the item.
CREATE TABLE work_item (
    claim      TEXT PRIMARY KEY,
    run_id     TEXT NOT NULL,
    handle     TEXT NOT NULL,
    source     TEXT NOT NULL CHECK (json_valid(source)),
    source_key TEXT NOT NULL,
    asked_at   INTEGER NOT NULL,
    item_id    TEXT,
    item       TEXT CHECK (json_valid(item)),
    claimed_at INTEGER,
    state      TEXT NOT NULL CHECK (state IN ('asking', 'held', 'reporting', 'releasing', 'reported', 'released', 'given_up')),
    ended_at   INTEGER,
    failed     INTEGER NOT NULL DEFAULT 0 CHECK (failed IN (0, 1)),
    report     TEXT CHECK (json_valid(report)),
    attempts   INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    not_before INTEGER,
    told_at    INTEGER,
    error      TEXT,
    CHECK ((item_id IS NULL) = (item IS NULL) AND (item_id IS NULL) = (claimed_at IS NULL)),
    CHECK (item_id IS NOT NULL OR state NOT IN ('held', 'reporting', 'reported')),
    CHECK ((state IN ('asking', 'held')) = (ended_at IS NULL)),
    CHECK ((state IN ('reporting', 'releasing')) = (not_before IS NOT NULL)),
    CHECK ((state IN ('reported', 'released', 'given_up')) = (told_at IS NOT NULL))
) STRICT;

-- One item of a source is held by one run.
CREATE UNIQUE INDEX work_held ON work_item (source_key, item_id) WHERE state = 'held';
CREATE INDEX work_open ON work_item (run_id) WHERE ended_at IS NULL;
CREATE INDEX work_due ON work_item (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX work_of_run ON work_item (run_id, asked_at);
CREATE INDEX work_of_item ON work_item (source_key, item_id, claimed_at);
CREATE INDEX work_given_up ON work_item (told_at) WHERE state = 'given_up';
