"""The settings of a project (defaults < file < environment < flags, merged once), and where its file is."""

import os
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from rota.model.budgets import Account, Price, Subscription
from rota.model.errors import ProjectMissing
from rota.model.notifications import Target
from rota.model.proposals import AgentPolicy
from rota.model.spec import KeepAwake, QuietHours, Retention, SecretOrigin
from rota.model.store_url import SQLITE

FILE_NAME = "rota.yaml"
STATE_NAME = ".rota"
TAKEOVER_NAME = "takeover.json"
"""The journal of a takeover of the crontab, in the state folder."""
OUTPUT_TOTAL = 5_000_000_000
BUILT_IN_POOLS: Mapping[str, int] = {"agents": 2}
"""Pools that exist unless the file sets them."""

Stamp = tuple[int, ...]
"""What changes when a file is written or replaced."""


class LogFormat(StrEnum):
    """The form of log lines: text for people, JSON, or by the kind of standard error."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


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
    log_format: LogFormat = LogFormat.AUTO
    keep_awake: KeepAwake = KeepAwake.OFF


class Oidc(Struct, frozen=True):
    """An identity provider that logs people in."""

    issuer: str
    client_id: str
    client_secret: str = ""
    """The name of the secret; empty for a public client."""
    claim: str = "email"
    """The claim of the ID token with the person's name."""
    scope: str = "openid email"


class Http(Struct, frozen=True):
    """The `http:` section."""

    listen: str = "127.0.0.1"
    """The address, with or without a port; without: the default port, or the next free one."""
    base_path: str = ""
    """The path of rota behind a proxy: empty, or such as `/rota`."""
    public_url: str = ""
    """The address for people, if it differs from `listen`."""
    trusted_header: str = ""
    """The header in which a proxy of `proxies` names the person."""
    proxies: tuple[str, ...] = ()
    proxy_secret: str = ""
    """The name of the secret that the proxy sends as well."""
    people: Mapping[str, str] = field(default_factory=dict)
    """The scope of each person."""
    others: str = ""
    """The scope of every other person; empty: none."""
    oidc: Oidc | None = None


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
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    """The budgets that keep a part of subscriptions for people."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    agent_policy: AgentPolicy = field(default_factory=AgentPolicy)
    notify: Mapping[str, Target] = field(default_factory=dict)
    """The notification targets by name."""
    secrets: Mapping[str, SecretOrigin] = field(default_factory=dict)
    """The secrets that the file says where to read."""
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


def find_project(directory: str | None, environment: Mapping[str, str], cwd: Path) -> Path:
    """Return the project's folder: `--dir`, ROTA_DIR, the nearest one upwards with a rota.yaml, or the user's own."""
    for given, origin in ((directory, "--dir"), (environment.get("ROTA_DIR"), "ROTA_DIR")):
        if given:
            return _given_folder(cwd / os.path.expanduser(given), origin)
    nearest, own = nearest_project(cwd), user_folder(environment)
    if nearest is not None:
        return nearest
    if (own / FILE_NAME).is_file():
        return own
    raise ProjectMissing(
        f"there is no {FILE_NAME} in {cwd.absolute()} or above it",
        hint="go to a project's folder, name it with --dir or ROTA_DIR, or write a first file with `rota init`",
    )


def nearest_project(cwd: Path) -> Path | None:
    """Return the nearest folder upwards that holds a rota.yaml."""
    cwd = cwd.absolute()
    return next((folder for folder in (cwd, *cwd.parents) if (folder / FILE_NAME).is_file()), None)


def user_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's own file."""
    return _user_place(environment, "XDG_CONFIG_HOME", ".config")


def user_state(environment: Mapping[str, str]) -> Path:
    """Return the folder for what is remembered about all of the user's projects."""
    return _user_place(environment, "XDG_STATE_HOME", ".local/state")


def home_of(environment: Mapping[str, str]) -> str:
    """Return the user's home folder."""
    return environment.get("HOME") or os.path.expanduser("~")


def account_folder(environment: Mapping[str, str], adapter: str, account: str, written: str = "") -> str:
    """Return the login folder of an account: as it is written, else below the user's configuration."""
    if written:
        return home_of(environment) + written[1:] if written.startswith("~") else written
    return str(_user_place(environment, "XDG_CONFIG_HOME", ".config") / "accounts" / adapter / account)


def _user_place(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    given = environment.get(variable, "")
    return Path(given if os.path.isabs(given) else os.path.join(home_of(environment), usual)) / "rota"


def _given_folder(place: Path, origin: str) -> Path:
    folder = place.parent if place.name == FILE_NAME and not place.is_dir() else place
    if (folder / FILE_NAME).is_file():
        return folder.resolve()
    raise ProjectMissing(
        f"there is no {FILE_NAME} in {folder} ({origin})",
        hint=f"name a folder that holds one, or write a first file with `rota init --dir {folder}`",
    )


def stamp_of(path: Path) -> Stamp | None:
    """Return a value that differs after a write or replacement of a file, None for a missing file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
