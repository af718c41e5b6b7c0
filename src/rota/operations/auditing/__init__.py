"""The parts of `rota verify`: they read the database by themselves and share no planning code with the engine."""
