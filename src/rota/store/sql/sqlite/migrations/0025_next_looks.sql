-- The next run of a job as a run of it asked for it; `next_for` null: the end of the chain plans it.
CREATE TABLE next_look (
    job_id   TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
    run      TEXT NOT NULL,
    author   TEXT NOT NULL,
    why      TEXT NOT NULL,
    after_ms INTEGER NOT NULL CHECK (after_ms > 0),
    asked_at INTEGER NOT NULL,
    next_for INTEGER
) STRICT, WITHOUT ROWID;
