"""A console that cannot show what it wants to, since the database is gone just then, ends no scheduler."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.engine.clock import SystemClock
from rota.engine.membership.shutdown import Stop
from rota.model.errors import DatabaseGone
from rota.operations.project.locate import ProjectPaths
from rota.serve.daemon import Daemon


class Unable:
    """A console whose first words fail; the scheduler is asked to stop when they do."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.daemon: Daemon | None = None

    def serving(self, *_: Any, **__: Any) -> None:
        """Ask for a stop, and fail."""
        self.told.append("serving")
        assert self.daemon is not None
        self.daemon._stopping.ask(Stop("now", timedelta()))
        raise DatabaseGone("the database cannot be reached")

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.told.append(name)


def test_a_scheduler_goes_on_although_its_console_can_read_nothing_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("jobs: {}\n")
    console = Unable()
    console.daemon = Daemon(ProjectPaths(tmp_path, tmp_path / ".rota"), SystemClock(), environ={}, observer=console)
    asyncio.run(console.daemon.run())
    assert "serving" in console.told
    assert "stopping" in console.told
