"""Where a tool works: the store, who asks, and how a wish becomes a definition."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.model.clock import Clock
from rota.model.making import AgentPolicy, Maker
from rota.model.spec import JobSpec
from rota.operations.jobs import project_timezone
from rota.store.driver import Store

Declare = Callable[[str, Mapping[str, Any], Maker], JobSpec]
"""Makes a definition of a job's name and keys, as the file would; raises FileProblems with what is wrong."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What every tool is given. `policy` None: the one that was applied."""

    store: Store
    state: Path
    clock: Clock
    maker: Maker
    declare: Declare
    policy: AgentPolicy | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def now(self) -> datetime:
        """Return the wall time."""
        return self.clock.now()

    def zone(self) -> str:
        """Return the project's time zone."""
        return project_timezone(self.store)
