-- name: stat_add
-- A tally is added key by key.
INSERT INTO stat AS known (span, job, since, tally)
SELECT value ->> 0, CASE value ->> 1 WHEN '' THEN 0 ELSE (SELECT seq FROM job WHERE id = value ->> 1) END, value ->> 2, value ->> 3
FROM json_each(:cells) WHERE true
ON CONFLICT (span, job, since) DO UPDATE SET tally = (
    SELECT json_group_object(key, total) FROM (
        SELECT key, sum(value) AS total FROM (
            SELECT key, value FROM json_each(known.tally) UNION ALL SELECT key, value FROM json_each(excluded.tally)) GROUP BY key))

-- name: stat_delta_take
DELETE FROM stat_delta WHERE id IN (SELECT id FROM stat_delta ORDER BY id LIMIT :limit) RETURNING ends

-- name: stat_put
INSERT INTO stat (span, job, since, tally, pruned)
SELECT value ->> 0, CASE value ->> 1 WHEN '' THEN 0 ELSE (SELECT seq FROM job WHERE id = value ->> 1) END, value ->> 2, value ->> 3, value ->> 4
FROM json_each(:cells)

-- name: stat_note_pruned
UPDATE stat SET pruned = pruned + item.number
FROM (SELECT value ->> 0 AS span, CASE value ->> 1 WHEN '' THEN 0 ELSE (SELECT seq FROM job WHERE id = value ->> 1) END AS job,
    value ->> 2 AS since, value ->> 3 AS number FROM json_each(:cells)) AS item
WHERE stat.span = item.span AND stat.job = item.job AND stat.since = item.since

-- name: stat_of_jobs
-- The cells of some jobs.
SELECT job.id, stat.since, stat.tally FROM json_each(:jobs) AS item CROSS JOIN job ON job.id = item.value
CROSS JOIN stat ON stat.job = job.seq WHERE stat.span = :span AND stat.since >= :since AND stat.since < :until

-- name: stat_lock
-- A transaction that writes has the whole database.
DELETE FROM stat WHERE 1 = 0

-- name: run_cost_add
INSERT INTO run_cost (run, job, finished_at, usd)
SELECT run.seq, run.job, item.value ->> 1, item.value ->> 2 FROM json_each(:costs) AS item JOIN run ON run.id = item.value ->> 0

-- name: audit_costs
-- Runs whose cost differs from what they report.
SELECT job.name, run.number, coalesce(run_cost.usd, 0), coalesce(ended.artifacts ->> '$.usage.usd_millionths', 0)
FROM ended JOIN run ON run.seq = ended.run JOIN job ON job.seq = ended.job LEFT JOIN run_cost ON run_cost.run = ended.run
WHERE (run_cost.usd IS NOT NULL OR ended.artifacts LIKE '%"usd_millionths"%')
    AND coalesce(run_cost.usd, 0) <> coalesce(ended.artifacts ->> '$.usage.usd_millionths', 0) LIMIT :limit
