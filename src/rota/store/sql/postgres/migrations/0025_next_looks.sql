-- The next run of a job as a run of it asked for it; `next_for` null: the end of the chain plans it.
CREATE TABLE next_look (
    job_id   TEXT COLLATE "C" PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
    run      TEXT COLLATE "C" NOT NULL,
    author   TEXT COLLATE "C" NOT NULL,
    why      TEXT COLLATE "C" NOT NULL,
    after_ms BIGINT NOT NULL CHECK (after_ms > 0),
    asked_at BIGINT NOT NULL,
    next_for BIGINT
);
