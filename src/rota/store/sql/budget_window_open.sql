INSERT INTO budget_window AS known (budget, unit, since, until, amount) VALUES (:budget, :unit, :since, :until, :amount)
ON CONFLICT (budget, unit, since, until) DO UPDATE SET amount = excluded.amount WHERE known.amount <> excluded.amount
