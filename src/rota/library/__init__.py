"""The Python API: `rota.Scheduler`, embedded in the host process, and its results."""
