-- name: budgets_all
SELECT name, unit, amount, per, timezone, policy, estimate, declared FROM budget ORDER BY name

-- name: budgets_drop
DELETE FROM budget WHERE declared = 0 AND name NOT IN (SELECT budget FROM budget_window)

-- name: budget_window_open
INSERT INTO budget_window AS known (budget, unit, since, until, amount) VALUES (:budget, :unit, :since, :until, :amount)
ON CONFLICT (budget, unit, since, until) DO UPDATE SET amount = excluded.amount WHERE known.amount <> excluded.amount

-- name: budget_window
SELECT id, since, until, amount, settled, reserved, pruned FROM budget_window
WHERE budget = :budget AND unit = :unit AND since = :since AND until = :until

-- name: budget_windows
SELECT id, since, until, amount, settled, reserved, pruned FROM budget_window
WHERE budget = :budget AND unit = :unit AND until <= :before ORDER BY since DESC LIMIT :limit

-- name: budget_earliest
SELECT min(since) FROM budget_window WHERE budget = :budget AND unit = :unit

-- name: budget_take
-- The condition decides, not what was read before. No limit: it is only counted, or given back.
UPDATE budget_window SET reserved = reserved + :amount
WHERE id = :id AND (CAST(:most AS bigint) IS NULL OR settled + reserved + :amount <= :most)

-- name: budget_entry_reserve
INSERT INTO budget_entry AS known (run_id, window_id, budget, job_id, estimate, reserved)
VALUES (:run_id, :window_id, :budget, :job_id, :estimate, :estimate)
ON CONFLICT (run_id, window_id) DO UPDATE SET estimate = excluded.estimate, reserved = known.reserved + excluded.reserved

-- name: budget_entry_held
SELECT reserved, spent FROM budget_entry WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL
{{FOR NO KEY UPDATE}}

-- name: budget_entry_spend
UPDATE budget_entry SET spent = spent + 1, reserved = reserved + :extend
WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL

-- name: budget_entry_begin
INSERT INTO budget_entry (run_id, window_id, budget, job_id, reserved, spent) VALUES (:run_id, :window_id, :budget, :job_id, 1, 1)

-- name: budget_entry_release
UPDATE budget_entry SET estimate = NULL, reserved = spent
WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL

-- name: budget_entry_drop
DELETE FROM budget_entry WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL AND spent = 0

-- name: budget_settle
UPDATE budget_window SET settled = settled + :settled, reserved = reserved - :reserved WHERE id = :id

-- name: budget_entry_settle
UPDATE budget_entry SET settled = :settled, measured = :measured, settled_at = :now
WHERE run_id = :run_id AND window_id = :window_id AND settled IS NULL

-- name: budget_rest
-- What a window used after some of it had passed.
SELECT coalesce(sum(settled), 0) FROM budget_entry WHERE window_id = :window_id AND settled_at > :after

-- name: budget_spenders
SELECT job.name, count(*), sum(coalesce(entry.settled, entry.reserved)), count(*) - count(entry.settled),
    sum(CASE WHEN entry.settled IS NOT NULL AND entry.measured = 0 THEN entry.settled ELSE 0 END)
FROM budget_entry AS entry JOIN job ON job.id = entry.job_id
WHERE entry.window_id = :window_id GROUP BY job.id ORDER BY 3 DESC, 1 LIMIT :limit

-- name: budget_counts
SELECT count(*), coalesce(sum(CASE WHEN settled IS NOT NULL AND measured = 0 THEN settled ELSE 0 END), 0) FROM budget_entry
WHERE window_id = :window_id

-- name: budget_old_windows
SELECT 1 FROM budget_window WHERE until < :before AND NOT EXISTS (
    SELECT 1 FROM budget_entry WHERE budget_entry.window_id = budget_window.id) LIMIT 1

-- name: prune_budget_windows
DELETE FROM budget_window WHERE id IN (
    SELECT id FROM budget_window WHERE until < :before AND NOT EXISTS (
        SELECT 1 FROM budget_entry WHERE budget_entry.window_id = budget_window.id) ORDER BY id LIMIT :limit)

-- name: subscription_windows
SELECT provider, name, used, resets_at, at FROM subscription_window ORDER BY provider, name

-- name: subscription_window_put
-- A report of a run that ended before the stored one is older.
INSERT INTO subscription_window AS known (provider, name, used, resets_at, at) VALUES (:provider, :name, :used, :resets_at, :at)
ON CONFLICT (provider, name) DO UPDATE SET used = excluded.used, resets_at = excluded.resets_at, at = excluded.at
WHERE known.at <= excluded.at
