UPDATE budget_window SET pruned = pruned + gone.settled
FROM (SELECT window_id, CAST(sum(settled) AS bigint) AS settled FROM budget_entry
    WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND settled IS NOT NULL GROUP BY window_id) AS gone
WHERE budget_window.id = gone.window_id
