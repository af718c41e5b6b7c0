DELETE FROM budget WHERE declared = 0 AND name NOT IN (SELECT budget FROM budget_window)
