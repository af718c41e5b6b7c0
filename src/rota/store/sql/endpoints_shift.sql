UPDATE endpoint SET closed_until = closed_until - :back WHERE closed_until IS NOT NULL
