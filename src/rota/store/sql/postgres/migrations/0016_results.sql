-- The whole answer of a run, where its summary holds only the beginning.
CREATE TABLE result (
    run  BIGINT PRIMARY KEY REFERENCES run (seq),
    text TEXT COLLATE "C" NOT NULL CHECK (length(text) BETWEEN 1 AND 1000000),
    at   BIGINT NOT NULL
);
CREATE INDEX result_at ON result (at);
