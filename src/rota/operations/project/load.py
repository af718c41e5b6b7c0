"""Loading of a project's file and settings, its trust, and whether another project includes it."""

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import fields

from rota.declare.include import NOT_EDITED, Included
from rota.declare.project import Declared, read_project
from rota.declare.readers.agents import Agent
from rota.declare.registry import BUILTIN_CONDITIONS, Function, Registry, default
from rota.model.clock import write_duration
from rota.model.errors import FileProblems, FolderUntrusted, FunctionMissing, ProjectIncluded, ProjectServed, RotaError
from rota.model.notifications import Target
from rota.model.spec import JobSpec, SourceKind
from rota.model.store_url import is_postgres, shown
from rota.operations.project.locate import ProjectPaths, find_inclusion, known_hosts, state_of
from rota.rules.budgets import say_account
from rota.rules.subscriptions import say_subscription
from rota.settings import Settings, Stamp, user_state

if TYPE_CHECKING:
    from rota.engine.functions import FunctionTable
    from rota.runners.command import InterpreterFinder
    from rota.store.driver import Database, Store

RECORDS = "trusted"
VARIABLE = "ROTA_TRUST"
"""Environment variable with more trusted folders, separated as in PATH, for machines without a writable home."""


def is_trusted(folder: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a folder is trusted and still has the same owner."""
    listed = [place for place in environ.get(VARIABLE, "").split(os.pathsep) if os.path.isabs(place)]
    real = os.path.realpath(folder)
    return any(os.path.realpath(place) == real for place in listed) or _record(folder, environ).is_file()


def set_trust(folder: Path, environ: Mapping[str, str], *, trusted: bool = True) -> None:
    """Record that a project is trusted, or remove the record. Raise OSError if the record cannot be written."""
    record = _record(folder, environ)
    if not trusted:
        record.unlink(missing_ok=True)
    elif not record.is_file():
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_bytes(os.fsencode(os.path.realpath(folder)) + b"\n")


def require_trust(
    folder: Path, environ: Mapping[str, str], *, now: datetime, ask: Callable[[Sequence[str]], bool]
) -> None:
    """Require trust before a command acts on a project; raise FolderUntrusted if `ask` returns False.

    `ask` gets the Python modules that the files name. A project without modules becomes trusted without a question:
    applying or serving it already lets its commands run.
    """
    if is_trusted(folder, environ):
        return
    modules, right = named_modules(folder, environ, now=now)
    if modules and not ask(modules):
        raise FolderUntrusted(str(folder), modules)
    if modules or right:
        with contextlib.suppress(OSError):  # without a record the next command asks again
            set_trust(folder, environ)


def named_modules(folder: Path, environ: Mapping[str, str], *, now: datetime) -> tuple[tuple[str, ...], bool]:
    """Return the Python modules that the files of a project name, and whether the files are valid; import nothing."""
    modules: dict[str, None] = {}
    try:
        read_project(folder, environment=environ, now=now, imports=False, lenient=True, modules=modules)
    except RotaError:
        return tuple(modules), False
    return tuple(modules), True


def _record(folder: Path, environ: Mapping[str, str]) -> Path:
    real = os.path.realpath(folder)
    try:
        owner = os.stat(real).st_uid
    except OSError:
        owner = -1
    return user_state(environ) / RECORDS / hashlib.sha256(os.fsencode(f"{real}\0{owner}")).hexdigest()


class Loaded(Struct, frozen=True):
    """A checked file and the functions it names."""

    declared: Declared
    trust_note: str | None = None
    """A note if modules were read and not imported, as the folder is not trusted; the table is empty then."""

    @property
    def table(self) -> "FunctionTable":
        """The functions and conditions that the jobs run inside the scheduler's process."""
        if self.trust_note is not None:
            return function_table((), default)
        return function_table(self.declared.jobs, default, self.declared.agents)


def load_project(
    folder: Path,
    environ: Mapping[str, str],
    *,
    now: datetime,
    state: Path | None = None,
    content: bytes | None = None,
    inner: Path | None = None,
    lenient: bool = False,
    calendars: MutableMapping[Path, Stamp | None] | None = None,
    acts: bool = False,
    edited: Mapping[Path, bytes] = NOT_EDITED,
) -> Loaded:
    """Read and check a project's file, or `content` instead of it or of the file of `inner`; raise FileProblems.

    `edited` files of the project are read in place of those on the disk.

    A `lenient` load leaves out included projects with problems; `calendars` gets the calendar files that it read.
    Modules are imported if the caller `acts`, as `rota serve` does, or the folder is trusted. Otherwise only their
    source is read.
    """
    modules: dict[str, None] = {}
    imports = acts or is_trusted(folder, environ)
    try:
        declared = read_project(
            folder,
            environment=environ,
            interpreter=interpreter_finder,
            state=state,
            now=now,
            content=content,
            inner=inner,
            lenient=lenient,
            calendars=calendars,
            imports=imports,
            modules=modules,
            edited=edited,
        )
    except FileProblems as error:
        if modules and not imports:
            error.effect = f"{error.effect}; {_trust_note(modules)}"
        raise
    return Loaded(declared, _trust_note(modules) if modules and not imports else None)


def _trust_note(modules: Iterable[str]) -> str:
    return f"the source of {', '.join(modules)} was read, not run: this folder is not trusted (`rota trust`)"


def interpreter_finder(python: str, settings: Settings) -> "InterpreterFinder":
    """Return the finder of functions in another interpreter."""
    from rota.runners.command import InterpreterFinder

    return InterpreterFinder(python, settings.folder, settings.imports)


def function_table(jobs: tuple[JobSpec, ...], registry: Registry, agents: Sequence[Agent] = ()) -> "FunctionTable":
    """Return the functions and conditions that these jobs run inside the scheduler's process."""
    from rota.engine.functions import FunctionTable

    functions = {job.work.function for job in jobs if job.work.in_process and job.work.function}
    built_in = set(BUILTIN_CONDITIONS) - set(registry.conditions)
    conditions = {
        condition.name
        for job in jobs
        for condition in job.gates.conditions
        if condition.name and job.work.python is None and condition.name not in built_in
    }
    return FunctionTable(
        {name: registry.resolve(name) for name in functions},
        {name: registry.resolve_condition(name) for name in conditions},
        sources={name: registry.resolve_source(name) for name in source_classes(jobs)},
        agents=_agent_functions(jobs, agents, registry),
    )


def _agent_functions(jobs: Sequence[JobSpec], agents: Sequence[Agent], registry: Registry) -> dict[str, Function]:
    """Return the functions of agents; an agent without jobs may be broken."""
    used = {job.work.agent.function for job in jobs if job.work.agent is not None and job.work.agent.function}
    functions = {name: registry.resolve_agent(name) for name in used}
    for name in {agent.function for agent in agents if agent.function} - used:
        with contextlib.suppress(FunctionMissing):
            functions[name] = registry.resolve_agent(name)
    return functions


def source_classes(jobs: Sequence[JobSpec]) -> set[str]:
    """Return the Python classes of these jobs' work sources."""
    sources = [job.work.agent.source for job in jobs if job.work.agent is not None]
    return {source.place for source in sources if source is not None and source.kind is SourceKind.RUN}


class Section(Struct, frozen=True):
    """A part of the configuration, with its keys as rota.yaml has them."""

    title: str
    values: tuple[tuple[str, str], ...]


def configuration(store: "Store", settings: Settings | None) -> tuple[Section, ...]:
    """Return the effective configuration; without settings only the stored part."""
    if settings is None:
        return store.read(_declared)
    return (
        Section("scheduler", _values(settings.scheduler)),
        Section("http", _values(settings.http)),
        Section("retention", (*_values(settings.retention), ("output_total", _said(settings.output_total)))),
        *store.read(_declared),
    )


def _declared(db: "Database") -> tuple[Section, ...]:
    from rota.store.tables import budgets, jobs, notifications, queue
    from rota.store.tables.jobs import TIMEZONE_KEY

    zone = db.row("meta_get", key=TIMEZONE_KEY)
    accounts = [(row.account.name, say_account(row.account)) for row in budgets.accounts(db) if row.declared]
    accounts += [(name, say_subscription(subscription)) for name, subscription in budgets.subscriptions(db).items()]
    pools = [(pool.name, f"{pool.capacity:,}") for pool in queue.pools(db) if pool.declared]
    sources = Counter(job.source for job in jobs.all_jobs(db) if job.retired_at is None)
    found = (
        Section("project", (("timezone", str(zone[0]) if zone else "UTC"), ("aging", _said(queue.aging(db))))),
        Section("jobs", tuple((source, f"{number:,}") for source, number in sorted(sources.items()))),
        Section("pools", tuple(pools)),
        Section("budgets", tuple(accounts)),
        Section("notify", tuple((name, _target(target)) for name, target in sorted(notifications.targets(db).items()))),
        Section("agent_policy", _values(jobs.policy(db))),
    )
    return tuple(section for section in found if section.values)


def _target(target: Target) -> str:
    """Return a target without its address, which may be a secret."""
    return f"{target.channel}, on {', '.join(event.value for event in target.on)}"


def _values(record: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, _said(getattr(record, field.name))) for field in fields(record))


def _said(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Target):
        return _target(value)
    return f"{value:,}" if isinstance(value, int) else str(value) or "–"


class SoftwareVersions(Struct, frozen=True):
    """The versions of the software in use."""

    rota: str
    python: str
    database: str
    place: str
    schema: int
    tzdata: str
    system: str


def versions(store: "Store", state: Path, settings: Settings | None) -> SoftwareVersions:
    """Return the versions in use; the address of a database without its password."""
    import platform
    from importlib.metadata import version

    from rota.engine.clock import tzdata_version
    from rota.store.queries import load_migrations

    address = settings.store if settings is not None else "sqlite"
    shared = is_postgres(address)
    return SoftwareVersions(
        rota=version("rota"),
        python=platform.python_version(),
        database=store.read(partial(_server, shared=shared)),
        place=shown(address) if shared else str(state / "rota.db"),
        schema=max(number for number, _, _ in load_migrations("postgres" if shared else "sqlite")),
        tzdata=tzdata_version(),
        system=platform.platform(terse=True),
    )


def _server(db: "Database", *, shared: bool) -> str:
    row = db.row("database_version")
    return f"{'PostgreSQL' if shared else 'SQLite'} {str(row[0]).split(' ')[0] if row else ''}"


def refuse_served(projects: Sequence[Included], state: Path) -> None:
    """Refuse included projects with a running scheduler; `state` is the state folder of the including project."""
    if not projects:
        return
    from rota.engine.membership.locks import SERVE_LOCK, serving_pid
    from rota.store.sqlite.store import is_held

    for project in projects:
        own = state_of(project.folder, {})
        if own != state and is_held(own / SERVE_LOCK):
            raise ProjectServed(project.file, str(project.folder), pid=serving_pid(own))


def refuse_included(place: ProjectPaths, environ: Mapping[str, str], *, verb: str) -> None:
    """Refuse to serve a project alone while the scheduler of an including project runs."""
    from rota.engine.membership.locks import SERVE_LOCK
    from rota.store.sqlite.store import is_held

    inclusion = find_inclusion(place.folder, known_hosts(environ), environ)
    if inclusion is not None and is_held(state_of(inclusion.host, {}) / SERVE_LOCK):
        raise ProjectIncluded(str(place.folder), str(inclusion.host), verb=verb)
