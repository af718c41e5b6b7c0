"""The settings of a project: defaults < file < environment < flags, merged once."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from msgspec import Struct, field

from rota.model.budgets import Account, Price
from rota.model.notifications import Target
from rota.model.proposals import AgentPolicy
from rota.model.spec import QuietHours, Retention
from rota.model.store_url import SQLITE

FILE_NAME = "rota.yaml"
STATE_NAME = ".rota"
OUTPUT_TOTAL = 5_000_000_000
BUILT_IN_POOLS: Mapping[str, int] = {"agents": 2}
"""Pools that exist unless the file sets them."""


class SchedulerSettings(Struct, frozen=True):
    """The `scheduler:` section."""

    concurrency: int = 16
    tick: timedelta = timedelta(seconds=60)
    timeout: timedelta | None = timedelta(minutes=10)
    shutdown_grace: timedelta = timedelta(seconds=30)
    agent_shutdown_grace: timedelta = timedelta(minutes=10)
    enabled: bool = True
    crash_guard: bool = True
    ping: Target | None = None
    """The address that the scheduler requests once a minute."""
    aging: timedelta | None = None
    """The waiting time that equals one step of priority; None: no aging."""


class Http(Struct, frozen=True):
    """The `http:` section."""

    listen: str = "127.0.0.1"
    """The address, with or without a port; without: the default port, or the next free one."""
    base_path: str = ""
    """The path of rota behind a proxy: empty, or such as `/rota`."""
    public_url: str = ""
    """The address for people, if it differs from `listen`."""


class Settings(Struct, frozen=True):
    """The settings of one project."""

    folder: Path
    state: Path
    store: str = SQLITE
    """The database as written: `sqlite`, or a PostgreSQL address with its secrets by name."""
    timezone: str = "UTC"
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    http: Http = field(default_factory=Http)
    retention: Retention = field(default_factory=Retention)
    output_total: int | None = OUTPUT_TOTAL
    imports: tuple[str, ...] = ()
    python: str | None = None
    pools: Mapping[str, int] = field(default_factory=lambda: dict(BUILT_IN_POOLS))
    budgets: Mapping[str, Account] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    agent_policy: AgentPolicy = field(default_factory=AgentPolicy)
    notify: Mapping[str, Target] = field(default_factory=dict)
    """The notification targets by name."""
    quiet: QuietHours | None = None
    """The file's own quiet hours."""

    @property
    def file(self) -> Path:
        """The project's rota.yaml."""
        return self.folder / FILE_NAME

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.state / "rota.db"
