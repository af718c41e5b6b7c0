"""One call of the command: where it looks, which clock it reads, how it answers."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rota.cli.interrupts import raise_lost_interrupt
from rota.cli.layout import HelpContext
from rota.cli.streams import json_text

if TYPE_CHECKING:
    from rota.model.clock import Clock
    from rota.model.making import Maker
    from rota.operations.project import Place
    from rota.store.driver import Store


def _pause(seconds: float) -> None:
    raise_lost_interrupt()
    threading.Event().wait(seconds)


@dataclass(slots=True)
class Invocation:
    """What a command is given; tests bring their own clock, folder and pause."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path | None = None
    given_clock: "Clock | None" = None
    pause: Callable[[float], None] = _pause
    directory: str | None = None
    as_json: bool = False
    found: "tuple[str | None, Place] | None" = None
    """The place that was found last, and the --dir that it was found with."""
    acting: "Maker | None" = None
    """Who types the command, once that was looked up."""
    typed: tuple[str, str] = ("", "")
    """The command, and the names of jobs or runs that it was given."""

    @property
    def clock(self) -> "Clock":
        """The clock of this call."""
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

    def place(self) -> "Place":
        """Return where the project and its state are; ProjectMissing when there is none."""
        from rota.operations.project import locate

        if self.found is None or self.found[0] != self.directory:
            self.found = (self.directory, locate(self.directory, self.environ, self._inside()))
        return self.found[1]

    def _inside(self) -> Path:
        """Return the folder to look from: in a run that is in no project that of its job.

        So it is in a workspace too, since a worktree has a copy of the project's file.
        """
        from rota.declare.files import nearest_project

        project = self.environ.get("ROTA_PROJECT_DIR")
        if not project or not self.in_run:
            return self.cwd
        inside = self.environ.get("ROTA_WORKSPACE") or nearest_project(self.cwd) is None
        return Path(project) if inside else self.cwd

    @property
    def in_run(self) -> bool:
        """Whether the command was typed inside a run, of this project or of another one."""
        return bool(self.environ.get("ROTA_RUN_ID"))

    def maker(self) -> "Maker":
        """Return who types the command: a person, or the run that it is a part of."""
        if self.acting is None:
            from rota.cli.acting import maker_here
            from rota.model.making import Maker

            self.acting = maker_here(self) if self.in_run else Maker()
        return self.acting

    def own_place(self, verb: str) -> "Place":
        """Return the place of a project with a scheduler of its own; ProjectIncluded inside an included one."""
        from rota.model.errors import ProjectIncluded

        place = self.place()
        if place.scope:
            raise ProjectIncluded(str(place.nearest), str(place.folder), verb=verb)
        return place

    def full_name(self, name: str) -> str:
        """Return the name of a job or run as it is stored: inside an included project `triage` is `api/triage`."""
        from rota.model.ids import is_id

        if "/" in name.partition(":")[0] or is_id(name) or not (scope := self.place().scope):
            return name
        return f"{scope}/{name}"

    def labels(self, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return labels that choose jobs, inside an included project only its own."""
        from rota.declare.including import project_label

        scope = self.place().scope
        return (*given, project_label(scope)) if scope else given

    def covers(self, name: str) -> bool:
        """Tell whether a job is shown here: inside an included project only its own are."""
        from rota.operations.project import in_scope

        return in_scope(name, self.place().scope)

    def tell_scope(self) -> None:
        """Say that only the jobs of an included project are shown."""
        place = self.place()
        if place.scope and not self.as_json:
            click.echo(f"{place.scope}, included by {place.folder}   all projects: rota --dir {place.folder}")

    def spelled(self, command: str) -> str:
        """Return how a command of the whole project is typed here: inside an included one its folder is named."""
        place = self.place()
        return f"rota --dir {place.folder} {command}" if place.scope else f"rota {command}"

    def tell_whole(self) -> None:
        """Say that an answer is about all projects of the scheduler, not only the one that the person is in."""
        place = self.place()
        if place.scope and not self.as_json:
            click.echo(f"all projects of {place.folder} together, of which {place.scope} is one")

    def applied(self) -> bool:
        """Tell whether there is a database: something was applied before."""
        from rota.operations.project import is_applied

        return is_applied(self.place(), self.clock)

    @contextmanager
    def store(self, *, create: bool = False) -> "Iterator[tuple[Place, Store]]":
        """Open the project's database; without `create` something must have been applied before."""
        from rota.model.errors import NotApplied, UnknownJob
        from rota.operations.project import is_applied, open_place

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

    def note(self) -> None:
        """Leave a line in the audit of a change outside the database; without one there is no audit yet.

        The change is made by then: that it could not be noted is told.
        """
        from rota.model.errors import RotaError

        try:
            if self.applied():
                with self.store() as (_, store):
                    store.write(lambda _db: None)
        except RotaError as error:
            click.echo(f"rota: this is not in the audit: {error.message}", err=True)

    def _noting(self, store: "Store") -> "Store":
        """Return the store; what a person or a run changes is noted. The tools note each call themselves."""
        if self.typed[0] == "mcp":
            return store
        from rota.operations.trail import Deed, Trailed, person

        def deed() -> Deed:
            actor = self.maker().title if self.in_run and self.maker().run is not None else person()
            return Deed(actor, "command", *self.typed)

        return Trailed(store, deed, self.clock)


def _declares(folder: Path, name: str) -> bool:
    """Tell whether the file names a job or group, without checking the rest of it."""
    from rota.declare.files import load
    from rota.model.errors import RotaError

    try:
        data = load(folder / "rota.yaml").data
    except RotaError:
        return False
    sections = (data.get("jobs"), data.get("groups"))
    return any(isinstance(section, dict) and name in section for section in sections)


class RotaCommand(click.Command):
    """A command with what every command has: --json and --dir."""

    context_class = HelpContext

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, _json_option(), _directory_option()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; an empty value is a mistake, such as a variable that is not set, never "not given"."""
        rest = super().parse_args(ctx, args)
        for param in self.params:
            if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
                refuse_empty(ctx, param, ctx.params.get(str(param.name)))
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; names of jobs and runs are those of the project that the caller is in."""
        for param in self.params:
            if param.name in NAMES or (param.name == "name" and self.name in NAMED):
                ctx.params[param.name] = _full_names(ctx.ensure_object(Invocation), ctx.params.get(param.name))
        if ctx.ensure_object(Invocation).in_run:
            from rota.cli.acting import refuse_agents

            refuse_agents(ctx.ensure_object(Invocation), ctx)
        ctx.ensure_object(Invocation).typed = _typed(ctx)
        return super().invoke(ctx)


def refuse_empty(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Refuse an empty value of an option or argument by its name; the words of a command to run may be empty."""
    if param.type is click.UNPROCESSED or "" not in (value if isinstance(value, tuple) else (value,)):
        return
    shown = max(param.opts, key=len) if isinstance(param, click.Option) else param.make_metavar(ctx).strip("[]….")
    raise click.UsageError(f"the value of {shown} is empty", ctx)


def _typed(ctx: click.Context) -> tuple[str, str]:
    """Return the command as the audit tells it, and the names of jobs or runs that it was given."""
    from rota.cli.acting import command_path

    given = [ctx.params.get(name) for name in (*sorted(NAMES), "name", "what", "secret")]
    names = [name for one in given for name in (one if isinstance(one, tuple) else (one,)) if isinstance(name, str)]
    return command_path(ctx), " ".join(names)


NAMES = frozenset({"job", "jobs", "group", "run", "runs", "adopt", "before", "always", "members"})
"""Params of commands that hold names of jobs, runs or groups."""
NAMED = frozenset({"show", "explain", "run"})
"""Commands whose `name` is such a name."""


def _full_names(invocation: Invocation, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(invocation.full_name(name) for name in value)
    return invocation.full_name(value) if isinstance(value, str) else value


def _json_option() -> click.Option:
    return click.Option(
        ["--json"], is_flag=True, expose_value=False, callback=_note_json, help="Answer in JSON, in a fixed shape."
    )


def _directory_option() -> click.Option:
    return click.Option(
        ["--dir", "directory"],
        metavar="PATH",
        expose_value=False,
        callback=_note_directory,
        help="The project's folder.",
    )


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        ctx.ensure_object(Invocation).as_json = True


def _note_directory(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    refuse_empty(ctx, param, value)
    if value:
        ctx.ensure_object(Invocation).directory = value


def print_json(value: Any) -> None:
    """Print a JSON answer."""
    click.echo(json_text(value, indent=2))


def read_duration(text: str) -> timedelta:
    """Return the duration of an option: 30s, 5m, 1h, 1d, or whole seconds."""
    from rota.model.durations import parse_duration

    return parse_duration(int(text) if text.isdecimal() else text)


dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
