"""Where a project is and how its scheduler behaves: defaults < file < environment < flags, merged once."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rota.model.spec import Retention

FILE_NAME = "rota.yaml"
STATE_NAME = ".rota"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The `scheduler:` section."""

    concurrency: int = 16
    tick: timedelta = timedelta(seconds=60)
    timeout: timedelta | None = timedelta(minutes=10)
    shutdown_grace: timedelta = timedelta(seconds=30)
    enabled: bool = True
    crash_guard: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """One project: its folder, its file, its state, its scheduler."""

    folder: Path
    state: Path
    timezone: str = "UTC"
    scheduler: Scheduler = field(default_factory=Scheduler)
    retention: Retention = field(default_factory=Retention)
    output_total: int | None = 5_000_000_000
    imports: tuple[str, ...] = ()
    python: str | None = None

    @property
    def file(self) -> Path:
        """The project's rota.yaml."""
        return self.folder / FILE_NAME

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.state / "rota.db"
