INSERT INTO budget_window (budget, unit, since, until, amount) VALUES (:budget, :unit, :since, :until, :amount)
ON CONFLICT (budget, unit, since, until) DO UPDATE SET amount = excluded.amount WHERE amount <> excluded.amount
