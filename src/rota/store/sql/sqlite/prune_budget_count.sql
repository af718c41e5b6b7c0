UPDATE budget_window SET pruned = pruned + gone.settled
FROM (SELECT window_id, sum(settled) AS settled FROM budget_entry
    WHERE run_id IN (SELECT value FROM json_each(:ids)) AND settled IS NOT NULL GROUP BY window_id) AS gone
WHERE budget_window.id = gone.window_id
