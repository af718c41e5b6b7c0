SELECT 1 FROM run INDEXED BY run_budget WHERE waiting_for = 'budget' LIMIT 1
