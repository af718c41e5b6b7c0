-- R-19: what a window counts is what its entries say, counted anew.
SELECT budget_window.budget, budget_window.since, budget_window.settled, budget_window.pruned + coalesce(counted.settled, 0),
    budget_window.reserved, coalesce(counted.reserved, 0)
FROM budget_window LEFT JOIN (
    SELECT window_id, sum(settled) AS settled, sum(CASE WHEN settled IS NULL THEN reserved ELSE 0 END) AS reserved FROM budget_entry
    GROUP BY window_id) AS counted ON counted.window_id = budget_window.id
WHERE budget_window.settled <> budget_window.pruned + coalesce(counted.settled, 0)
  OR budget_window.reserved <> coalesce(counted.reserved, 0)
LIMIT :limit
