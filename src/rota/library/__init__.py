"""The face for Python: `rota.Scheduler`, a guest in somebody's process, and what it answers."""
