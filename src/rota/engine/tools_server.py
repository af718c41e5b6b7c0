"""The command that serves rota's tools to an agent's run: it knows its project, its state and its run by itself."""

import shutil
import sys

from rota.runners.environment import RunFacts, Surroundings

ENV = "/usr/bin/env"


def tools_server(run: RunFacts, surroundings: Surroundings) -> tuple[str, ...]:
    """Return the command of a run's own tools. Some agents give their servers no environment, so it is said here."""
    told = (f"ROTA_RUN_ID={run.run_id}", f"ROTA_STATE={surroundings.state}")
    # Without -P a folder named `rota` in the project would be taken for this package.
    rota = (sys.executable, "-P", "-m", "rota", "mcp", "--dir", str(surroundings.root or surroundings.project))
    return (shutil.which("env") or ENV, *told, *rota)
