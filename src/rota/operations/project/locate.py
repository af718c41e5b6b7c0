"""A project on disk: its folder, its files, its state folder and its store, and the project that includes it."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import Struct, field

from rota.model.clock import Clock
from rota.model.errors import DatabaseReadOnly, InvalidValue, StateError, is_utf8
from rota.model.store_url import SQLITE, is_postgres, shown, with_secrets
from rota.settings import (
    FILE_NAME,
    STATE_NAME,
    Stamp,
    find_project,
    home_of,
    nearest_project,
    stamp_of,
    user_folder,
    user_state,
)

if TYPE_CHECKING:
    from rota.declare.include import Included, IncludeMatches
    from rota.rules.health_checks import Server
    from rota.store.driver import OpenStore

DATABASE = "rota.db"
GITIGNORE = "*\n"
EXTRA_HINT = "install rota with its extra: `uv tool install 'rota[postgres]'`, or `pip install 'rota[postgres]'`"
STORE_NOTE = "store"
"""Where a scheduler notes the address that only its environment had: commands in its runs have another one."""
_PLACE_KEY = r"(?m)^((state|store)\s*:|[\"'](state|store)[\"']\s*:|[{\[])"


class ProjectPaths(Struct, frozen=True):
    """Where a project and its state are, known without reading all of its file.

    Inside a project that this one includes, `scope` is the name under which it does, and `inner` the folder there.
    """

    folder: Path
    state: Path
    scope: str = ""
    inner: Path | None = None
    store: str = SQLITE
    """The database as it was written, with its secrets by name: `sqlite`, or the address of one of PostgreSQL."""

    @property
    def shared(self) -> bool:
        """Whether the database is one of PostgreSQL, which other machines may use too."""
        return is_postgres(self.store)

    @property
    def nearest(self) -> Path:
        """The folder of the included project, else the project's own folder."""
        return self.inner or self.folder


def in_scope(name: str, scope: str) -> bool:
    """Return whether a job belongs to an included project; without a scope every job does.

    >>> in_scope("api/triage", "api"), in_scope("web/triage", "api"), in_scope("web/triage", "")
    (True, False, True)
    """
    return not scope or name.startswith(f"{scope}/")


def locate(directory: str | None, environ: Mapping[str, str], cwd: Path) -> ProjectPaths:
    """Find the project: --dir, ROTA_DIR, the nearest rota.yaml upwards, the user's own; and its state.

    The state is ROTA_STATE, `state:`, or .rota. A project that another one includes is found as a part of that one,
    unless --dir names it.
    """

    folder = find_project(directory, environ, cwd)
    if not is_utf8(str(folder)):
        raise InvalidValue(f"the path of the project, {str(folder)!r}, is not UTF-8", hint="rename the folder")
    nearest = None if directory else nearest_project(cwd)
    hosts = [folder] if environ.get("ROTA_DIR") else [*_scheduler_of_run(environ), *known_hosts(environ)]
    inclusion = find_inclusion(nearest, hosts, environ) if nearest else None
    host = folder if inclusion is None else inclusion.host
    state = state_of(host, environ)
    store = store_of(host, state, environ)
    if inclusion is None:
        return ProjectPaths(host, state, store=store)
    return ProjectPaths(host, state, inclusion.name, nearest, store)


def _scheduler_of_run(environ: Mapping[str, str]) -> list[Path]:
    """Return the project of the run that this environment belongs to, if any."""
    told = environ.get("ROTA_SCHEDULER_DIR")
    return [Path(told)] if told and environ.get("ROTA_RUN_ID") else []


def state_of(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the state folder of a project: ROTA_STATE, that of the scheduler in a run of its, `state:`, or .rota.

    A run may look at other projects: what it was told about its own scheduler is not about those.
    """
    if environ.get("ROTA_STATE"):
        return (folder / Path(environ["ROTA_STATE"]).expanduser()).absolute()
    told = environ.get("ROTA_STATE_DIR")
    if told and any(os.path.realpath(own) == os.path.realpath(folder) for own in _scheduler_of_run(environ)):
        return Path(told)
    written = _written(folder, "state")
    return (folder / Path(written).expanduser()).absolute() if written is not None else folder / STATE_NAME


def store_of(folder: Path, state: Path, environ: Mapping[str, str]) -> str:
    """Return the store of a project: ROTA_STORE, the store of a run's scheduler, `store:`, or SQLite."""
    told = environ.get("ROTA_STORE", "")
    if told and told != SQLITE and not is_postgres(told):
        hint = "set it to sqlite, or to postgresql://user@host:5432/database"
        raise InvalidValue(f"ROTA_STORE is {shown(told)!r}, which is not a store that rota supports", hint=hint)
    if not told and environ.get("ROTA_RUN_ID"):
        with contextlib.suppress(OSError):
            told = (state / STORE_NOTE).read_text("utf-8").strip()
    written = told or _written(folder, "store") or SQLITE
    return written if is_postgres(written) else SQLITE


def _written(folder: Path, key: str) -> str | None:
    """Return a path setting of the file, or None; its problems are reported elsewhere."""
    text = (folder / FILE_NAME).read_text("utf-8", errors="replace")
    if not re.search(_PLACE_KEY, text):
        return None
    from rota.declare.yaml import load

    written = load(folder / FILE_NAME).data.get(key)
    return written if isinstance(written, str) else None


def make_state(state: Path) -> bool:
    """Create the state folder, mode 0700, with its own .gitignore; return whether it is new."""
    try:
        state.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return _keep_private(state)
    except OSError as error:
        from rota.store.sqlite.store import FORBIDDEN

        kind = DatabaseReadOnly if error.errno in FORBIDDEN else StateError
        hint = "check owner and mode of its folder, or set `state:` or ROTA_STATE"
        raise kind(
            f"cannot create the state folder {state}: {(error.strerror or str(error)).lower()}", hint=hint
        ) from None
    from rota.store.sqlite.store import reachable

    with reachable(state):
        (state / ".gitignore").write_text(GITIGNORE)
    return True


def _keep_private(state: Path) -> bool:
    if not state.is_dir():
        raise StateError(f"the state folder {state} is a file", hint="move it away, or set `state:` or ROTA_STATE")
    from rota.store.sqlite.store import reachable

    with reachable(state):
        if not (state / ".gitignore").exists():
            (state / ".gitignore").write_text(GITIGNORE)
        if state.stat().st_mode & 0o077:
            os.chmod(state, 0o700)
    return False


def open_state(state: Path, clock: Clock, *, create: bool, store: str = SQLITE) -> "OpenStore":
    """Open the database of a state folder, or of `store`; without `create` it must exist."""
    if create:
        make_state(state)
        _note_store(state, store)
    if is_postgres(store):
        opened: OpenStore = load_postgres().open_postgres(complete_address(store, state), now=clock.now, create=create)
        return opened
    from rota.store.migrate import open_store

    return open_store(state / DATABASE, now=clock.now(), create=create)


def open_place(place: ProjectPaths, clock: Clock, *, create: bool) -> "OpenStore":
    """Open the database of a project."""
    return open_state(place.state, clock, create=create, store=place.store)


def is_applied(place: ProjectPaths, clock: Clock) -> bool:
    """Return whether the database exists: SQLite's file, or rota's tables on the server."""
    if not place.shared:
        return (place.state / DATABASE).exists()
    return bool(load_postgres().is_made(complete_address(place.store, place.state), now=clock.now))


def look_at(place: ProjectPaths, clock: Clock) -> "Server":
    """Look at the server of a project's database."""
    address = complete_address(place.store, place.state)
    server: Server = load_postgres("setup").look_at_server(address, now=clock.now, monotonic=clock.monotonic)
    return server


def load_postgres(module: str = "setup") -> ModuleType:
    """Load what speaks to PostgreSQL, which few need."""
    try:
        return import_module(f"rota.store.postgres.{module}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "psycopg_binary"):
            raise
        raise StateError("the store is PostgreSQL, but psycopg is not installed", hint=EXTRA_HINT) from error


def complete_address(address: str, state: Path) -> str:
    """Return an address with the secrets that it names, from where a scheduler of this state finds them."""
    from rota.runners.environment import find_secret

    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    return with_secrets(address, partial(find_secret, credentials=credentials, environ=os.environ, state=state))


def _note_store(state: Path, store: str) -> None:
    """Store an address from the environment, readable by its owner alone; delete it if there is none."""
    note = state / STORE_NOTE
    if is_postgres(store) and store == os.environ.get("ROTA_STORE"):
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{store}\n")
    else:
        note.unlink(missing_ok=True)


REGISTRY = "included.json"


HOSTS = "including"


class Inclusion(Struct, frozen=True):
    """A project that includes another one, and its name for it."""

    host: Path
    name: str


def find_inclusion(folder: Path, hosts: Sequence[Path], environ: Mapping[str, str]) -> Inclusion | None:
    """Return the first of `hosts` that includes the project in `folder`, without reading their jobs."""
    wanted = os.path.realpath(folder)
    for host in hosts:
        if os.path.realpath(host) == wanted:
            continue
        matches = _matches(host / FILE_NAME, home_of(environ))
        for project in matches.projects if matches else ():
            if os.path.realpath(project.folder) == wanted:
                return Inclusion(host, project.name)
    return None


def _matches(file: Path, home: str) -> "IncludeMatches | None":
    if not file.is_file():
        return None
    from rota.declare.include import find_included, written_patterns

    patterns = written_patterns(file)
    return find_included(patterns, file, home=home) if patterns else None


def parts_of(file: Path, home: str) -> "tuple[Included, ...]":
    """Return the parts of a project's file."""
    matches = _matches(file, home)
    return matches.parts if matches else ()


def known_hosts(environ: Mapping[str, str]) -> list[Path]:
    """Return the projects that may include others: the user's own file, then registered projects."""
    return [user_folder(environ), *_registered(environ)]


def _registered(environ: Mapping[str, str]) -> list[Path]:
    try:
        registry = json.loads((user_state(environ) / REGISTRY).read_bytes())
        return [Path(host) for host in registry[HOSTS]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember_host(folder: Path, environ: Mapping[str, str], *, includes: bool) -> None:
    """Register a project that includes others, or remove it, so that commands inside included projects find it.

    Missing projects are removed; the user's own file needs no entry. Raise OSError if the registry cannot be written.
    """
    registered = _registered(environ)
    own = [folder] if includes and folder != user_folder(environ) else []
    others = [host for host in registered if host != folder and (host / FILE_NAME).is_file()]
    hosts = sorted([*others, *own])
    if hosts != registered:
        path = user_state(environ) / REGISTRY
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, json.dumps({HOSTS: [str(host) for host in hosts]}, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write or replace a file, completely or not at all; only its owner may read it.

    Agents that run meanwhile cannot read it either: the names `token.new` and `secrets.env.new` are hidden from them.
    """
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.replace(fresh, path)


class FilesTogether(Struct):
    """The files of a project; unchanged files are not read again."""

    file: Path
    home: str
    _patterns: dict[Path, tuple[Stamp | None, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def many(self) -> bool:
        """Whether the file named patterns at its last read."""
        return bool(self._patterns.get(self.file, (None, ()))[1])

    def stamps(self) -> tuple[object, ...]:
        """Return a value that changes when a file is changed, added or removed."""
        return tuple(self._stamps())

    def _stamps(self) -> Iterator[object]:
        own = stamp_of(self.file)
        yield own
        matches = self._look(self.file, own)
        if matches is None:
            return
        yield from matches.problems
        for file in matches.files:
            stamp = stamp_of(file.path)
            yield file.path, stamp
            inner = self._look(file.path, stamp, base=self.file.parent) if file.name else None
            yield from ((part.path, stamp_of(part.path)) for part in (inner.parts if inner else ()))

    def _look(self, file: Path, stamp: Stamp | None, *, base: Path | None = None) -> "IncludeMatches | None":
        from rota.declare.include import find_included, written_patterns

        cached = self._patterns.get(file)
        if cached is None or cached[0] != stamp:
            cached = self._patterns[file] = (stamp, written_patterns(file))
        return find_included(cached[1], file, home=self.home, base=base) if cached[1] else None
