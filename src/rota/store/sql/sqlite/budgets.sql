-- name: budgets_named
SELECT name, unit, amount, per, timezone, policy, estimate, declared FROM budget
WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name

-- name: budgets_declare
INSERT INTO budget (name, unit, amount, per, timezone, policy, estimate, declared)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, 1 FROM json_each(:accounts) WHERE true
ON CONFLICT (name) DO UPDATE SET unit = excluded.unit, amount = excluded.amount, per = excluded.per, timezone = excluded.timezone,
    policy = excluded.policy, estimate = excluded.estimate, declared = 1

-- name: budgets_withdraw
UPDATE budget SET declared = 0 WHERE declared = 1 AND name NOT IN (SELECT value ->> 0 FROM json_each(:accounts))

-- name: budget_gate
-- A run or direct call may reserve at its gates in a slot of this process.
SELECT 1 FROM live WHERE run = (SELECT seq FROM run WHERE id = :id) AND state = 2 AND epoch = :epoch
UNION ALL SELECT 1 FROM direct_wait WHERE id = :id AND epoch = :epoch

-- name: budget_any_held
SELECT 1 FROM budget_entry INDEXED BY budget_entry_open WHERE settled IS NULL LIMIT 1

-- name: budget_entries_held
SELECT entry.run_id, entry.window_id, entry.budget, budget_window.unit, entry.estimate, entry.reserved, entry.spent
FROM json_each(:ids) AS item JOIN budget_entry AS entry ON entry.run_id = item.value AND entry.settled IS NULL
JOIN budget_window ON budget_window.id = entry.window_id ORDER BY entry.budget, entry.window_id

-- name: budget_largest
-- The dearest of a job's newest settled runs in an account, of those that said what they used.
SELECT max(settled) FROM (SELECT entry.settled FROM budget_entry AS entry INDEXED BY budget_entry_job
    JOIN budget_window ON budget_window.id = entry.window_id
    WHERE entry.job_id = :job_id AND entry.budget = :budget AND entry.measured = 1 AND entry.estimate IS NOT NULL
      AND budget_window.unit = :unit
    ORDER BY entry.settled_at DESC LIMIT :recent)

-- name: budget_anybody_waits
SELECT 1 FROM live INDEXED BY live_budget WHERE waiting_for = 'budget' LIMIT 1

-- name: budget_waiting
-- The runs that wait for room in an account, in queue order, with their estimates.
SELECT run.id, job.name || ':' || run.number, lacking.value ->> 'estimate'
FROM live INDEXED BY live_budget JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job, json_each(live.decisions, '$.budget.accounts') AS lacking
WHERE live.waiting_for = 'budget' AND lacking.value ->> 'account' = :budget AND lacking.value ->> 'answer' = 'wait'
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit

-- name: prune_budget_count
UPDATE budget_window SET pruned = pruned + gone.settled
FROM (SELECT window_id, sum(settled) AS settled FROM budget_entry
    WHERE run_id IN (SELECT value FROM json_each(:ids)) AND settled IS NOT NULL GROUP BY window_id) AS gone
WHERE budget_window.id = gone.window_id

-- name: prune_budget_entries
DELETE FROM budget_entry WHERE run_id IN (SELECT value FROM json_each(:ids)) AND settled IS NOT NULL

-- name: usage_by_job
-- The plus keeps SQLite from walking the index of jobs and looking up each row: sorting is half of that.
SELECT (SELECT job.name FROM job WHERE job.id = job_id) AS name, count(*) AS runs, CAST(total(took) AS INTEGER) AS took,
    count(requests) AS requests_told, CAST(total(requests) AS INTEGER) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(total(tokens_in) AS INTEGER) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(total(tokens_out) AS INTEGER) AS tokens_out,
    count(usd) AS usd_told, CAST(total(usd) AS INTEGER) AS usd
FROM (
    SELECT job_id, max(coalesce(finished_at, :now) - started_at, 0) AS took,
        artifacts ->> '$.usage.requests' AS requests, artifacts ->> '$.usage.tokens_in' AS tokens_in,
        artifacts ->> '$.usage.tokens_out' AS tokens_out, artifacts ->> '$.usage.usd_millionths' AS usd
    FROM execution
    WHERE started_at >= :since AND (:jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))))
GROUP BY +job_id

-- name: usage_by_agent
-- First by definition: there are few of them, and each is read once for its agent.
SELECT coalesce(chosen, spec ->> '$.work.agent.agent') AS name, sum(runs) AS runs, sum(took) AS took,
    sum(requests_told) AS requests_told, sum(requests) AS requests,
    sum(tokens_in_told) AS tokens_in_told, sum(tokens_in) AS tokens_in,
    sum(tokens_out_told) AS tokens_out_told, sum(tokens_out) AS tokens_out,
    sum(usd_told) AS usd_told, sum(usd) AS usd
FROM (
    SELECT execution.job_id AS job_id, execution.version AS version, execution.artifacts ->> '$.agent' AS chosen, count(*) AS runs,
        CAST(total(max(coalesce(execution.finished_at, :now) - execution.started_at, 0)) AS INTEGER) AS took,
        count(execution.artifacts ->> '$.usage.requests') AS requests_told,
        CAST(total(execution.artifacts ->> '$.usage.requests') AS INTEGER) AS requests,
        count(execution.artifacts ->> '$.usage.tokens_in') AS tokens_in_told,
        CAST(total(execution.artifacts ->> '$.usage.tokens_in') AS INTEGER) AS tokens_in,
        count(execution.artifacts ->> '$.usage.tokens_out') AS tokens_out_told,
        CAST(total(execution.artifacts ->> '$.usage.tokens_out') AS INTEGER) AS tokens_out,
        count(execution.artifacts ->> '$.usage.usd_millionths') AS usd_told,
        CAST(total(execution.artifacts ->> '$.usage.usd_millionths') AS INTEGER) AS usd
    FROM execution
    WHERE execution.started_at >= :since
      AND (:jobs IS NULL OR execution.job_id IN (SELECT value FROM json_each(:jobs)))
    GROUP BY +execution.job_id, execution.version, chosen) AS used
LEFT JOIN job_version ON job_version.job_id = used.job_id AND job_version.version = used.version
GROUP BY name

-- name: usage_by_model
SELECT name, count(*) AS runs, CAST(total(took) AS INTEGER) AS took,
    count(requests) AS requests_told, CAST(total(requests) AS INTEGER) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(total(tokens_in) AS INTEGER) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(total(tokens_out) AS INTEGER) AS tokens_out,
    count(usd) AS usd_told, CAST(total(usd) AS INTEGER) AS usd
FROM (
    SELECT artifacts ->> '$.usage.model' AS name, max(coalesce(finished_at, :now) - started_at, 0) AS took,
        artifacts ->> '$.usage.requests' AS requests, artifacts ->> '$.usage.tokens_in' AS tokens_in,
        artifacts ->> '$.usage.tokens_out' AS tokens_out, artifacts ->> '$.usage.usd_millionths' AS usd
    FROM execution
    WHERE started_at >= :since AND (:jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))))
GROUP BY name

-- name: usage_by_outcome
SELECT name, count(*) AS runs, CAST(total(took) AS INTEGER) AS took,
    count(requests) AS requests_told, CAST(total(requests) AS INTEGER) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(total(tokens_in) AS INTEGER) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(total(tokens_out) AS INTEGER) AS tokens_out,
    count(usd) AS usd_told, CAST(total(usd) AS INTEGER) AS usd
FROM (
    SELECT CASE WHEN execution.status IS NULL THEN 'running' ELSE lower(execution.status) END
            || coalesce(' ' || coalesce(ended.reason, execution.artifacts ->> '$.reason'), '')
            || CASE WHEN execution.status = 'COMPLETED' AND ended.decisions ->> '$.postcondition.passed' THEN ' checked' ELSE '' END AS name,
        max(coalesce(execution.finished_at, :now) - execution.started_at, 0) AS took,
        execution.artifacts ->> '$.usage.requests' AS requests, execution.artifacts ->> '$.usage.tokens_in' AS tokens_in,
        execution.artifacts ->> '$.usage.tokens_out' AS tokens_out, execution.artifacts ->> '$.usage.usd_millionths' AS usd
    FROM execution LEFT JOIN ended ON ended.run = (SELECT seq FROM run WHERE run.id = execution.run_id)
    WHERE execution.started_at >= :since
      AND (:jobs IS NULL OR execution.job_id IN (SELECT value FROM json_each(:jobs))))
GROUP BY name

-- name: usage_by_quarter
SELECT name, count(*) AS runs, CAST(total(took) AS INTEGER) AS took,
    count(requests) AS requests_told, CAST(total(requests) AS INTEGER) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(total(tokens_in) AS INTEGER) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(total(tokens_out) AS INTEGER) AS tokens_out,
    count(usd) AS usd_told, CAST(total(usd) AS INTEGER) AS usd
FROM (
    SELECT started_at / :quarter AS name, max(coalesce(finished_at, :now) - started_at, 0) AS took,
        artifacts ->> '$.usage.requests' AS requests, artifacts ->> '$.usage.tokens_in' AS tokens_in,
        artifacts ->> '$.usage.tokens_out' AS tokens_out, artifacts ->> '$.usage.usd_millionths' AS usd
    FROM execution
    WHERE started_at >= :since AND (:jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))))
GROUP BY name ORDER BY name

-- name: subscription_waiting
SELECT run.id FROM live INDEXED BY live_budget JOIN run ON run.seq = live.run
WHERE live.waiting_for = 'budget' AND live.decisions ->> '$.subscription.verdict' = 'wait'
  AND (:provider IS NULL OR live.decisions ->> '$.subscription.provider' = :provider)
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit
