SELECT id, since, until, amount, settled, reserved, pruned FROM budget_window
WHERE budget = :budget AND unit = :unit AND since = :since AND until = :until
