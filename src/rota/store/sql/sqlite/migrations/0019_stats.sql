-- Statistics: what ended in each hour and each UTC day, by job; job 0 is the sum of all. `span` is the length in milliseconds.
-- A tally is an object of integers that are only ever added (rules/stats.py). `pruned` counts the rows that retention has removed.
CREATE TABLE stat (
    span   INTEGER NOT NULL CHECK (span = 3600000 OR span = 86400000),
    job    INTEGER NOT NULL,
    since  INTEGER NOT NULL CHECK (since % span = 0),
    tally  TEXT NOT NULL CHECK (json_valid(tally)),
    pruned INTEGER NOT NULL DEFAULT 0 CHECK (pruned >= 0),
    PRIMARY KEY (span, job, since)
) STRICT, WITHOUT ROWID;

-- What transactions have added and what is not yet in the cells: job, hour and tally.
CREATE TABLE stat_delta (
    id   INTEGER PRIMARY KEY,
    ends TEXT NOT NULL CHECK (json_valid(ends))
) STRICT;

-- What ended before the upgrade is counted in the background: the hours before this instant are not yet counted.
INSERT INTO meta (key, value)
SELECT 'stats_from', CAST((max(finished_at) / 3600000 + 1) * 3600000 AS TEXT)
FROM (SELECT finished_at FROM ended UNION ALL SELECT finished_at FROM call WHERE finished_at IS NOT NULL)
HAVING count(*) > 0;

-- What a run has cost, in millionths of a dollar: the most expensive runs are found without reading the others.
CREATE TABLE run_cost (
    run         INTEGER PRIMARY KEY REFERENCES ended (run) ON DELETE CASCADE,
    job         INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    usd         INTEGER NOT NULL CHECK (usd > 0)
) STRICT;
CREATE INDEX run_cost_usd ON run_cost (usd);
CREATE INDEX run_cost_job ON run_cost (job, usd);
INSERT INTO run_cost (run, job, finished_at, usd)
SELECT run, job, finished_at, usd FROM (SELECT run, job, finished_at, artifacts ->> '$.usage.usd_millionths' AS usd FROM ended WHERE artifacts LIKE '%"usd_millionths"%') AS paid
WHERE usd > 0;
