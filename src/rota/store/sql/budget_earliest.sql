SELECT min(since) FROM budget_window WHERE budget = :budget AND unit = :unit
