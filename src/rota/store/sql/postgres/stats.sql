-- name: stat_add
-- A tally is added key by key.
INSERT INTO stat AS known (span, job, since, tally)
SELECT CAST(item ->> 0 AS bigint), CASE item ->> 1 WHEN '' THEN 0 ELSE (SELECT seq FROM job WHERE id = item ->> 1) END, CAST(item ->> 2 AS bigint),
    item ->> 3
FROM json_array_elements(CAST(:cells AS json)) AS item
ON CONFLICT (span, job, since) DO UPDATE SET tally = (
    SELECT CAST(json_object_agg(key, total) AS text) FROM (
        SELECT key, sum(CAST(value AS bigint)) AS total FROM (
            SELECT key, value FROM json_each_text(CAST(known.tally AS json))
            UNION ALL SELECT key, value FROM json_each_text(CAST(excluded.tally AS json))) AS either GROUP BY key) AS sums)

-- name: stat_delta_take
-- What another transaction takes is left to it.
DELETE FROM stat_delta WHERE id = ANY (ARRAY(SELECT id FROM stat_delta ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)) RETURNING ends

-- name: stat_put
INSERT INTO stat (span, job, since, tally, pruned)
SELECT CAST(item ->> 0 AS bigint), CASE item ->> 1 WHEN '' THEN 0 ELSE (SELECT seq FROM job WHERE id = item ->> 1) END, CAST(item ->> 2 AS bigint),
    item ->> 3, CAST(item ->> 4 AS bigint)
FROM json_array_elements(CAST(:cells AS json)) AS item

-- name: stat_note_pruned
UPDATE stat SET pruned = stat.pruned + item.number
FROM (SELECT CAST(value ->> 0 AS bigint) AS span, CASE value ->> 1 WHEN '' THEN 0 ELSE (SELECT seq FROM job WHERE id = value ->> 1) END AS job,
    CAST(value ->> 2 AS bigint) AS since, CAST(value ->> 3 AS bigint) AS number FROM json_array_elements(CAST(:cells AS json))) AS item
WHERE stat.span = item.span AND stat.job = item.job AND stat.since = item.since

-- name: stat_of_jobs
-- The cells of some jobs.
SELECT job.id, stat.since, stat.tally FROM json_array_elements_text(CAST(:jobs AS json)) AS item (id) JOIN job ON job.id = item.id
JOIN stat ON stat.job = job.seq WHERE stat.span = :span AND stat.since >= :since AND stat.since < :until

-- name: stat_lock
-- Wait for all transactions that have added, and let later ones wait: what they add is then on top of what was counted.
LOCK TABLE stat_delta, stat IN SHARE ROW EXCLUSIVE MODE

-- name: run_cost_add
INSERT INTO run_cost (run, job, finished_at, usd)
SELECT run.seq, run.job, CAST(item ->> 1 AS bigint), CAST(item ->> 2 AS bigint)
FROM json_array_elements(CAST(:costs AS json)) AS item JOIN run ON run.id = item ->> 0

-- name: audit_costs
-- Runs whose cost differs from what they report.
SELECT job.name, run.number, coalesce(run_cost.usd, 0), coalesce(CAST(CAST(ended.artifacts AS json) -> 'usage' ->> 'usd_millionths' AS bigint), 0)
FROM ended JOIN run ON run.seq = ended.run JOIN job ON job.seq = ended.job LEFT JOIN run_cost ON run_cost.run = ended.run
WHERE (run_cost.usd IS NOT NULL OR ended.artifacts LIKE '%"usd_millionths"%')
    AND coalesce(run_cost.usd, 0) <> coalesce(CAST(CAST(ended.artifacts AS json) -> 'usage' ->> 'usd_millionths' AS bigint), 0) LIMIT :limit
