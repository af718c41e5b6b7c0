-- name: budgets_named
SELECT name, unit, amount, per, timezone, policy, estimate, declared FROM budget
WHERE name = ANY (ARRAY(SELECT json_array_elements_text(CAST(:names AS json)))) ORDER BY name

-- name: budgets_declare
INSERT INTO budget (name, unit, amount, per, timezone, policy, estimate, declared)
SELECT item ->> 0, item ->> 1, CAST(item ->> 2 AS bigint), item ->> 3, item ->> 4, item ->> 5, CAST(item ->> 6 AS bigint), 1
FROM json_array_elements(CAST(:accounts AS json)) AS item ORDER BY 1
ON CONFLICT (name) DO UPDATE SET unit = excluded.unit, amount = excluded.amount, per = excluded.per, timezone = excluded.timezone,
    policy = excluded.policy, estimate = excluded.estimate, declared = 1

-- name: budgets_withdraw
UPDATE budget SET declared = 0
WHERE declared = 1 AND name NOT IN (SELECT item ->> 0 FROM json_array_elements(CAST(:accounts AS json)) AS item)

-- name: budget_gate
-- A run or direct call may reserve at its gates in a slot of this process; it is locked until the commit.
WITH dispatched AS (
    SELECT 1 FROM live WHERE run = (SELECT seq FROM run WHERE id = :id) AND state = 2 AND epoch = :epoch
    {{FOR NO KEY UPDATE}}
),
called AS (
    SELECT 1 FROM direct_wait WHERE id = :id AND epoch = :epoch
    {{FOR NO KEY UPDATE}}
)
SELECT 1 FROM dispatched UNION ALL SELECT 1 FROM called

-- name: budget_any_held
SELECT 1 FROM budget_entry WHERE settled IS NULL LIMIT 1

-- name: budget_entries_held
SELECT entry.run_id, entry.window_id, entry.budget, budget_window.unit, entry.estimate, entry.reserved, entry.spent
FROM json_array_elements_text(CAST(:ids AS json)) AS item (value)
JOIN budget_entry AS entry ON entry.run_id = item.value AND entry.settled IS NULL
JOIN budget_window ON budget_window.id = entry.window_id ORDER BY entry.budget, entry.window_id
{{FOR NO KEY UPDATE OF entry}}

-- name: budget_largest
-- The dearest of a job's newest settled runs in an account, of those that said what they used.
SELECT max(settled) FROM (SELECT entry.settled FROM budget_entry AS entry
    JOIN budget_window ON budget_window.id = entry.window_id
    WHERE entry.job_id = :job_id AND entry.budget = :budget AND entry.measured = 1 AND entry.estimate IS NOT NULL
      AND budget_window.unit = :unit
    ORDER BY entry.settled_at DESC LIMIT :recent) AS newest

-- name: budget_anybody_waits
SELECT 1 FROM live WHERE waiting_for = 'budget' LIMIT 1

-- name: budget_waiting
-- The runs that wait for room in an account, in queue order, with their estimates.
SELECT run.id, job.name || ':' || run.number, CAST(lacking ->> 'estimate' AS bigint)
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = live.job
CROSS JOIN json_array_elements(CAST(live.decisions AS json) #> '{budget,accounts}') AS lacking
WHERE live.waiting_for = 'budget' AND lacking ->> 'account' = :budget AND lacking ->> 'answer' = 'wait'
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit

-- name: prune_budget_count
UPDATE budget_window SET pruned = pruned + gone.settled
FROM (SELECT window_id, CAST(sum(settled) AS bigint) AS settled FROM budget_entry
    WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND settled IS NOT NULL GROUP BY window_id) AS gone
WHERE budget_window.id = gone.window_id

-- name: prune_budget_entries
DELETE FROM budget_entry WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND settled IS NOT NULL

-- name: usage_by_job
SELECT (SELECT job.name FROM job WHERE job.id = job_id) AS name, count(*) AS runs, CAST(sum(took) AS bigint) AS took,
    count(requests) AS requests_told, CAST(coalesce(sum(requests), 0) AS bigint) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(coalesce(sum(tokens_in), 0) AS bigint) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(coalesce(sum(tokens_out), 0) AS bigint) AS tokens_out,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd
FROM (
    SELECT job_id, greatest(coalesce(finished_at, :now) - started_at, 0) AS took,
        CAST(told ->> 'requests' AS numeric) AS requests, CAST(told ->> 'tokens_in' AS numeric) AS tokens_in,
        CAST(told ->> 'tokens_out' AS numeric) AS tokens_out, CAST(told ->> 'usd_millionths' AS numeric) AS usd
    FROM execution CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))) AS used
GROUP BY job_id

-- name: usage_by_agent
-- First by definition: there are few of them, and each is read once for its agent.
SELECT coalesce(chosen, CAST(spec AS json) #>> '{work,agent,agent}') AS name, CAST(sum(runs) AS bigint) AS runs, CAST(sum(took) AS bigint) AS took,
    CAST(sum(requests_told) AS bigint) AS requests_told, CAST(sum(requests) AS bigint) AS requests,
    CAST(sum(tokens_in_told) AS bigint) AS tokens_in_told, CAST(sum(tokens_in) AS bigint) AS tokens_in,
    CAST(sum(tokens_out_told) AS bigint) AS tokens_out_told, CAST(sum(tokens_out) AS bigint) AS tokens_out,
    CAST(sum(usd_told) AS bigint) AS usd_told, CAST(sum(usd) AS bigint) AS usd
FROM (
    SELECT execution.job_id AS job_id, execution.version AS version, CAST(execution.artifacts AS json) ->> 'agent' AS chosen, count(*) AS runs,
        sum(greatest(coalesce(execution.finished_at, :now) - execution.started_at, 0)) AS took,
        count(told ->> 'requests') AS requests_told, coalesce(sum(CAST(told ->> 'requests' AS numeric)), 0) AS requests,
        count(told ->> 'tokens_in') AS tokens_in_told, coalesce(sum(CAST(told ->> 'tokens_in' AS numeric)), 0) AS tokens_in,
        count(told ->> 'tokens_out') AS tokens_out_told, coalesce(sum(CAST(told ->> 'tokens_out' AS numeric)), 0) AS tokens_out,
        count(told ->> 'usd_millionths') AS usd_told, coalesce(sum(CAST(told ->> 'usd_millionths' AS numeric)), 0) AS usd
    FROM execution
    CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE execution.started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR execution.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
    GROUP BY execution.job_id, execution.version, chosen) AS used
LEFT JOIN job_version ON job_version.job_id = used.job_id AND job_version.version = used.version
GROUP BY 1

-- name: usage_by_model
SELECT model AS name, count(*) AS runs, CAST(sum(took) AS bigint) AS took,
    count(requests) AS requests_told, CAST(coalesce(sum(requests), 0) AS bigint) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(coalesce(sum(tokens_in), 0) AS bigint) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(coalesce(sum(tokens_out), 0) AS bigint) AS tokens_out,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd
FROM (
    SELECT told ->> 'model' AS model, greatest(coalesce(finished_at, :now) - started_at, 0) AS took,
        CAST(told ->> 'requests' AS numeric) AS requests, CAST(told ->> 'tokens_in' AS numeric) AS tokens_in,
        CAST(told ->> 'tokens_out' AS numeric) AS tokens_out, CAST(told ->> 'usd_millionths' AS numeric) AS usd
    FROM execution CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))) AS used
GROUP BY model

-- name: usage_by_outcome
SELECT outcome AS name, count(*) AS runs, CAST(sum(took) AS bigint) AS took,
    count(requests) AS requests_told, CAST(coalesce(sum(requests), 0) AS bigint) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(coalesce(sum(tokens_in), 0) AS bigint) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(coalesce(sum(tokens_out), 0) AS bigint) AS tokens_out,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd
FROM (
    SELECT coalesce(lower(execution.status), 'running')
            || coalesce(' ' || coalesce(ended.reason, CAST(execution.artifacts AS json) ->> 'reason'), '')
            || CASE WHEN execution.status = 'COMPLETED' AND CAST(ended.decisions AS json) #>> '{postcondition,passed}' = 'true'
                THEN ' checked' ELSE '' END AS outcome,
        greatest(coalesce(execution.finished_at, :now) - execution.started_at, 0) AS took,
        CAST(told ->> 'requests' AS numeric) AS requests, CAST(told ->> 'tokens_in' AS numeric) AS tokens_in,
        CAST(told ->> 'tokens_out' AS numeric) AS tokens_out, CAST(told ->> 'usd_millionths' AS numeric) AS usd
    FROM execution CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    LEFT JOIN ended ON ended.run = (SELECT seq FROM run WHERE run.id = execution.run_id)
    WHERE execution.started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR execution.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))) AS used
GROUP BY outcome

-- name: usage_by_quarter
SELECT quarter AS name, count(*) AS runs, CAST(sum(took) AS bigint) AS took,
    count(requests) AS requests_told, CAST(coalesce(sum(requests), 0) AS bigint) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(coalesce(sum(tokens_in), 0) AS bigint) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(coalesce(sum(tokens_out), 0) AS bigint) AS tokens_out,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd
FROM (
    SELECT started_at / :quarter AS quarter, greatest(coalesce(finished_at, :now) - started_at, 0) AS took,
        CAST(told ->> 'requests' AS numeric) AS requests, CAST(told ->> 'tokens_in' AS numeric) AS tokens_in,
        CAST(told ->> 'tokens_out' AS numeric) AS tokens_out, CAST(told ->> 'usd_millionths' AS numeric) AS usd
    FROM execution CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))) AS used
GROUP BY quarter ORDER BY quarter

-- name: subscription_waiting
SELECT run.id FROM live JOIN run ON run.seq = live.run
WHERE live.waiting_for = 'budget' AND CAST(live.decisions AS json) #>> '{subscription,verdict}' = 'wait'
  AND (CAST(:provider AS text) IS NULL OR CAST(live.decisions AS json) #>> '{subscription,provider}' = :provider)
ORDER BY live.rank DESC, live.position, live.created_at, live.run LIMIT :limit
