"""One invocation of a command: project, store, actor and how it ends."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct, field

from rota.cli.output import HelpContext, json_text, raise_lost_interrupt
from rota.model.clock import parse_duration
from rota.model.errors import (
    AgentRefused,
    FileProblems,
    NotApplied,
    ProjectIncluded,
    ProjectMissing,
    RotaError,
    RunUnknown,
    UnknownJob,
    is_utf8,
)
from rota.model.ids import is_id

if TYPE_CHECKING:
    from rota.engine.membership.session import Entrance
    from rota.model.clock import Clock
    from rota.model.proposals import Author
    from rota.operations.project.locate import ProjectPaths
    from rota.store.driver import Store


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _pause(seconds: float) -> None:
    raise_lost_interrupt()
    threading.Event().wait(seconds)


class Invocation(Struct):
    """The environment of a command; tests pass their own clock, folder and pause."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path | None = None
    given_clock: "Clock | None" = None
    pause: Callable[[float], None] = _pause
    directory: str | None = None
    as_json: bool = False
    found: "tuple[str | None, ProjectPaths] | None" = None
    """The place that was found last, and the --dir that it was found with."""
    acting: "Author | None" = None
    """The author of the command, cached."""
    typed: tuple[str, str] = ("", "")
    """The command, and the names of jobs or runs that it was given."""

    @property
    def clock(self) -> "Clock":
        """The clock of this command."""
        if self.given_clock is None:
            from rota.engine.clock import SystemClock

            self.given_clock = SystemClock()
        return self.given_clock

    def now(self) -> datetime:
        """Return the wall time."""
        return self.clock.now()

    @property
    def cwd(self) -> Path:
        """The folder in which the command was typed."""
        return self.folder or Path.cwd()

    def place(self) -> "ProjectPaths":
        """Return the paths of the project; raise ProjectMissing if there is none."""
        from rota.operations.project.locate import locate

        if self.found is None or self.found[0] != self.directory:
            self.found = (self.directory, locate(self.directory, self.environ, self._inside()))
        return self.found[1]

    def _inside(self) -> Path:
        """Return the folder to search from: inside a run without a project, that of its job.

        The same holds in a workspace, since a worktree has a copy of the project's file.
        """
        from rota.settings import nearest_project

        project = self.environ.get("ROTA_PROJECT_DIR")
        if not project or not self.in_run:
            return self.cwd
        inside = self.environ.get("ROTA_WORKSPACE") or nearest_project(self.cwd) is None
        return Path(project) if inside else self.cwd

    @property
    def in_run(self) -> bool:
        """Whether the command was typed inside a run, of this project or of another one."""
        return bool(self.environ.get("ROTA_RUN_ID"))

    def maker(self) -> "Author":
        """Return the author of the command: a person, or the run that contains it."""
        if self.acting is None:
            from rota.model.proposals import Author

            self.acting = maker_here(self) if self.in_run else Author()
        return self.acting

    def source_folder(self) -> str:
        """Return the folder that the names of files in messages are relative to."""
        try:
            return str(self.place().folder)
        except ProjectMissing:
            return str(self.cwd)

    def listed(self, rows: "Sequence[T]", shape: Callable[[T], Any], *, none: str, scoped: bool = False) -> bool:
        """Print rows as JSON, or `none` if there are no rows; return whether that was all to print."""
        if self.as_json:
            print_json([shape(row) for row in rows])
        elif scoped:
            self.tell_scope()
        if not rows and not self.as_json:
            click.echo(none)
        return self.as_json or not rows

    def confirm(self, question: str, *, needs: str) -> bool:
        """Ask a question; raise a usage error with `needs` where no person can answer."""
        if self.as_json or not sys.stdin.isatty():
            raise click.UsageError(needs)
        return click.confirm(question, default=False)

    def own_place(self, verb: str) -> "ProjectPaths":
        """Return the paths of a project with its own scheduler; raise ProjectIncluded inside an included project."""
        place = self.place()
        if place.scope:
            raise ProjectIncluded(str(place.nearest), str(place.folder), verb=verb)
        return place

    def full_name(self, name: str) -> str:
        """Return the name of a job or run as it is stored: inside an included project `triage` is `api/triage`."""
        if "/" in name.partition(":")[0] or is_id(name) or not (scope := self.place().scope):
            return name
        return f"{scope}/{name}"

    def labels(self, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return labels that select jobs; inside an included project only its own."""
        from rota.declare.include import project_label

        scope = self.place().scope
        return (*given, project_label(scope)) if scope else given

    def covers(self, name: str) -> bool:
        """Return whether a job is shown here: inside an included project only its own jobs."""
        from rota.operations.project.locate import in_scope

        return in_scope(name, self.place().scope)

    def tell_scope(self) -> None:
        """Print that only the jobs of an included project are shown."""
        place = self.place()
        if place.scope and not self.as_json:
            click.echo(f"{place.scope}, included by {place.folder}   all projects: rota --dir {place.folder}")

    def spelled(self, command: str) -> str:
        """Return a command of the whole project as typed here: with --dir inside an included project."""
        place = self.place()
        return f"rota --dir {place.folder} {command}" if place.scope else f"rota {command}"

    def tell_whole(self) -> None:
        """Print that the output covers all projects of the scheduler."""
        place = self.place()
        if place.scope and not self.as_json:
            click.echo(f"all projects of {place.folder}, including {place.scope}")

    def applied(self) -> bool:
        """Return whether the project has a database."""
        from rota.operations.project.locate import is_applied

        return is_applied(self.place(), self.clock)

    @contextmanager
    def store(self, *, create: bool = False) -> "Iterator[tuple[ProjectPaths, Store]]":
        """Open the project's database; without `create` it must exist."""
        from rota.operations.project.locate import is_applied, open_place

        place = self.place()
        if not create and not place.shared and not is_applied(place, self.clock):
            raise NotApplied(str(place.folder))
        store = open_place(place, self.clock, create=create)
        if store.copied_to is not None:
            click.echo(f"rota: the database was upgraded; {store.copied_to} is a copy of it as it was", err=True)
        try:
            yield place, self._noting(store)
        except UnknownJob as error:
            if _declares(place.nearest, error.name.removeprefix(f"{place.scope}/")):
                error.hint = "it is in rota.yaml but not applied yet: `rota apply`"
            raise
        finally:
            store.close()

    @contextmanager
    def changing(self, *, dry_run: bool = False) -> "Iterator[Store]":
        """Open the project's database for a change; afterwards wake the scheduler, unless it was a dry run."""
        with self.store() as (_, store):
            yield store
            if not dry_run:
                self.wake()

    def wake(self) -> None:
        """Wake the scheduler of the project: there may be something to do."""
        from rota.engine.membership.control import wake

        wake(self.place().state)

    @staticmethod
    def zone(store: "Store") -> str:
        """Return the project's time zone."""
        from rota.operations.jobs import project_timezone

        return project_timezone(store)

    @contextmanager
    def store_if_applied(self) -> "Iterator[Store | None]":
        """Open the project's database, or yield None before the first apply."""
        if not self.applied():
            yield None
            return
        with self.store() as (_, store):
            yield store

    def note(self) -> None:
        """Record a change outside the database in the audit log, if there is a database.

        The change is already made: print an error if it cannot be recorded.
        """
        try:
            if self.applied():
                with self.store() as (_, store):
                    store.write(lambda _db: None)
        except RotaError as error:
            click.echo(f"rota: not recorded in the audit log: {error.message}", err=True)

    def _noting(self, store: "Store") -> "Store":
        """Return the store with an audit of changes; the tools record each call themselves."""
        if self.typed[0] == "mcp":
            return store
        from rota.operations.admin.audit import AuditedAct, AuditedStore, person

        def deed() -> AuditedAct:
            actor = self.maker().title if self.in_run and self.maker().run is not None else person()
            return AuditedAct(actor, "command", *self.typed)

        return AuditedStore(store, deed, self.clock)


def _declares(folder: Path, name: str) -> bool:
    """Return whether the file names a job or group; check nothing else."""
    from rota.declare.yaml import load

    try:
        data = load(folder / "rota.yaml").data
    except RotaError:
        return False
    sections = (data.get("jobs"), data.get("groups"))
    return any(isinstance(section, dict) and name in section for section in sections)


class RotaCommand(click.Command):
    """A command with --json and --dir."""

    context_class = HelpContext

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, _json_option(), _directory_option()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; refuse empty values, such as an unset variable, and values that are not UTF-8."""
        rest = super().parse_args(ctx, args)
        for param in self.params:
            if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
                refuse_unusable(ctx, param, ctx.params.get(str(param.name)))
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the examples of the command, from examples.txt."""
        path = f"rota {command_path(ctx)} "
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in examples() if f"{line} ".startswith(path)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; job and run names are relative to the current project."""
        for param in self.params:
            if param.name in NAMES or (param.name == "name" and self.name in NAMED):
                ctx.params[param.name] = _full_names(ctx.ensure_object(Invocation), ctx.params.get(param.name))
        if ctx.ensure_object(Invocation).in_run:
            refuse_agents(ctx.ensure_object(Invocation), ctx)
        ctx.ensure_object(Invocation).typed = _typed(ctx)
        try:
            return super().invoke(ctx)
        except FileProblems as error:
            error.folder = ctx.ensure_object(Invocation).source_folder()
            raise


def examples() -> list[str]:
    """Return the example commands that help shows, each with a remark after a #."""
    from importlib.resources import files

    return (files("rota.cli") / "examples.txt").read_text().splitlines()


def refuse_unusable(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Refuse a value that is empty or not UTF-8, by its name; the words of a command to run may be empty."""
    values = value if isinstance(value, tuple) else (value,)
    if "" in values and param.type is not click.UNPROCESSED:
        what = "is empty"
    elif not all(is_utf8(str(one)) for one in values):
        what = "is not UTF-8"
    else:
        return
    shown = max(param.opts, key=len) if isinstance(param, click.Option) else param.make_metavar(ctx).strip("[]….")
    raise click.UsageError(f"the value of {shown} {what}", ctx)


def _typed(ctx: click.Context) -> tuple[str, str]:
    """Return the command for the audit log, and the job and run names in its arguments."""

    given = [ctx.params.get(name) for name in (*sorted(NAMES), "name", "what", "secret")]
    names = [name for one in given for name in (one if isinstance(one, tuple) else (one,)) if isinstance(name, str)]
    return command_path(ctx), " ".join(names)


NAMES = frozenset({"job", "jobs", "group", "run", "runs", "adopt", "before", "always", "members"})
"""Params of commands that hold names of jobs, runs or groups."""
NAMED = frozenset({"show", "explain", "run", "spans"})
"""Commands whose `name` is such a name."""


def _full_names(invocation: Invocation, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(invocation.full_name(name) for name in value)
    return invocation.full_name(value) if isinstance(value, str) else value


def _json_option() -> click.Option:
    return click.Option(
        ["--json"], is_flag=True, expose_value=False, callback=_note_json, help="Print JSON with a stable schema."
    )


def _directory_option() -> click.Option:
    return click.Option(
        ["--dir", "directory"], metavar="PATH", expose_value=False, callback=_note_directory, help="Project folder."
    )


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        ctx.ensure_object(Invocation).as_json = True


def _note_directory(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    refuse_unusable(ctx, param, value)
    if value:
        ctx.ensure_object(Invocation).directory = value


def print_json(value: Any) -> None:
    """Print a JSON answer."""
    click.echo(json_text(value, indent=2))


def print_line(value: Any) -> None:
    """Print one of several JSON answers, on a line of its own."""
    click.echo(json_text(value))


def read_duration(text: str) -> timedelta:
    """Return the duration of an option: 30s, 5m, 1h, 1d, or whole seconds."""
    return parse_duration(int(text) if text.isdecimal() else text)


dry_run_option = click.option("--dry-run", is_flag=True, help="Print the planned changes; change nothing.")
UNCHANGED = "nothing was changed (--dry-run)"


def tell_unchanged(*, dry_run: bool) -> None:
    """Print that a dry run changed nothing."""
    if dry_run:
        click.echo(UNCHANGED)


READS = frozenset(
    {
        *("ack", "agents", "agents check", "approve", "audit", "budgets", "check", "completion", "deliveries"),
        *("diff", "digest", "doctor", "explain", "export", "grants", "groups", "groups show", "help", "history"),
        *("import", "list", "logs", "mcp", "next", "questions", "questions show", "queue", "schema", "show"),
        *("simulate", "spans", "stats", "status", "usage", "verify", "workers"),
    }
)
"""Commands that agents may use: they change nothing, or have their own limits (`mcp`)."""
ACTS = {"approve": ("job",), "ack": ("what", "everything"), "simulate": ("svg",), "mcp": ("plugin",)}
"""Params with which a command that agents may type changes something, or writes a file: then it is an act."""
STARTS = frozenset({"run", "trigger"})
BEYOND = ("force", "next_slot", "file")
"""Ways to start a job that pass its overlap and conditions, the queue, or the limit of an hour."""
STATELESS = frozenset({"check", "completion", "help", "import", "schema"})
"""Commands that open no state: an author without rights may use them too."""


def command_path(ctx: click.Context) -> str:
    """Return the typed command without `rota`."""
    words: list[str] = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        words.insert(0, here.info_name or "")
        here = here.parent
    return " ".join(words)


def maker_here(invocation: "Invocation") -> "Author":
    """Return the author of a command inside a run: that run, if it is live in the command's project."""
    from rota.operations.project.locate import open_place
    from rota.operations.tools.context import RUN_ID, maker_of, stranger

    try:
        applied = invocation.applied()
    except ProjectMissing:
        applied = False
    if not applied:
        return stranger(invocation.environ[RUN_ID])
    store = open_place(invocation.place(), invocation.clock, create=False)
    try:
        return maker_of(store, invocation.environ)
    finally:
        store.close()


def refuse_agents(invocation: "Invocation", ctx: click.Context) -> None:
    """Refuse a command that an agent's run may not use, and any command of an unknown run."""
    path = command_path(ctx)
    acts = next((name for name in ACTS.get(path, ()) if ctx.params.get(name)), None)
    only_lists = path == "mcp" and acts is None and (invocation.as_json or ctx.params.get("listing"))
    if path in STATELESS or only_lists:
        return
    maker = invocation.maker()
    if maker.unknown is not None:
        raise RunUnknown(maker.unknown, f"`rota {path}`", invocation.source_folder())
    if not maker.is_agent:
        return
    if path == "mcp" and acts is None:
        from rota.operations.tools.context import refuse_toolless

        refuse_toolless(maker)
    beyond = next((name for name in BEYOND if ctx.params.get(name)), None) if path in STARTS else None
    if (path in READS and acts is None) or (path in STARTS and beyond is None):
        return
    option = f" {_spelled(ctx, acts or beyond)}".rstrip()
    raise AgentRefused(f"`rota {path}{option}`", maker.run or maker.name)


def _spelled(ctx: click.Context, name: str | None) -> str:
    parameter = next((param for param in ctx.command.params if param.name == name), None)
    return parameter.opts[-1] if isinstance(parameter, click.Option) else ""


OPTIONS = (
    click.option("--name", metavar="NAME", help="Name of this worker; default: its previous name, or the host name."),
    click.option(
        "--label", "labels", metavar="K=V", multiple=True, help="Label of this worker, shown by `rota workers`."
    ),
    click.option("--only-pools", metavar="POOL,…", help="Claim only runs that use one of these pools."),
    click.option("--except-pools", metavar="POOL,…", help="Claim no runs that use one of these pools."),
    click.option(
        "--concurrency", type=click.IntRange(1, 10_000), help="Maximum number of concurrent runs on this machine."
    ),
)


def entering_options(command: F) -> F:
    """Add the worker options to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def entrance_of(
    *,
    name: str | None,
    labels: tuple[str, ...],
    only_pools: str | None,
    except_pools: str | None,
    concurrency: int | None,
) -> "Entrance":
    """Return the worker options as a record."""
    from rota.engine.membership.session import Entrance
    from rota.operations.workers import check_name, read_labels
    from rota.rules.queue_order import PoolFilter

    only, but = _pools("--only-pools", only_pools), _pools("--except-pools", except_pools)
    both = sorted(set(only or ()) & set(but or ()))
    if both:
        raise click.UsageError(f"--only-pools and --except-pools both name {both[0]}")
    called = None if name is None else check_name(name)
    return Entrance(called, read_labels(labels) or None, PoolFilter(only, but or ()), concurrency)


def _pools(option: str, written: str | None) -> tuple[str, ...] | None:
    if written is None:
        return None
    names = tuple(name.strip() for name in written.split(","))
    if not all(names):
        raise click.UsageError(f"{option} names pools with commas between them: gpu,big")
    return names


def conclude(invocation: Invocation, told: list[dict[str, Any]], refused: "list[RotaError]", *, dry_run: bool) -> None:
    """Print the results, then every error; the last error sets the exit code."""
    from rota.cli.errors import report

    if invocation.as_json:
        print_json(told)
    else:
        tell_unchanged(dry_run=dry_run)
    for error in refused[:-1]:
        report(error, as_json=invocation.as_json)
    if refused:
        raise refused[-1]
