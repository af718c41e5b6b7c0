-- The dearest of a job's newest settled runs in an account, of those that said what they used.
SELECT max(settled) FROM (SELECT entry.settled FROM budget_entry AS entry
    JOIN budget_window ON budget_window.id = entry.window_id
    WHERE entry.job_id = :job_id AND entry.budget = :budget AND entry.measured = 1 AND entry.estimate IS NOT NULL
      AND budget_window.unit = :unit
    ORDER BY entry.settled_at DESC LIMIT :recent) AS newest
