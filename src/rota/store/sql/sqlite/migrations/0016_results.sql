-- The whole answer of a run, where its summary holds only the beginning.
CREATE TABLE result (
    run  INTEGER PRIMARY KEY REFERENCES run (seq),
    text TEXT NOT NULL CHECK (length(text) BETWEEN 1 AND 1000000),
    at   INTEGER NOT NULL
) STRICT;
CREATE INDEX result_at ON result (at);
