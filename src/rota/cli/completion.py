"""Completion of names in a shell; the shell waits for it, so nothing heavy is imported."""

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rota.cli.invocation import Invocation

if TYPE_CHECKING:
    from rota.operations.project.locate import ProjectPaths
    from rota.store.completion import Reader

JOB_ARGUMENTS = frozenset({"job", "jobs", "group", "what"})
RUN_ARGUMENTS = frozenset({"run", "runs"})
AGENTS, TARGETS = "agents", "notify"
"""Commands whose commands take such a NAME."""


class KnownName(click.types.StringParamType):
    """A parameter type that completes jobs, and runs if the argument takes them."""

    def __init__(self, *, runs: bool) -> None:
        self.runs = runs

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the names that start with the typed text; none outside a project."""
        return [CompletionItem(name) for name in _names(ctx, incomplete, runs=self.runs)]


class Listed(click.types.StringParamType):
    """A parameter type that completes agents or notification targets."""

    def __init__(self, of: str) -> None:
        self.of = of

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the names that start with the typed text; none outside a project."""
        from rota.store.completion import known_agents, known_targets

        place = _place(ctx)
        reader = _reader(place) if place is not None else None
        names = {AGENTS: known_agents, TARGETS: known_targets}[self.of]
        found = names(reader) if reader is not None else []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _names(ctx: click.Context, incomplete: str, *, runs: bool) -> list[str]:
    from rota.store.completion import known_jobs, known_runs

    place = _place(ctx)
    reader = _reader(place) if place is not None else None
    if place is None or reader is None:
        return []
    within = f"{place.scope}/" if place.scope and "/" not in incomplete else ""
    job, colon, _ = f"{within}{incomplete}".partition(":")
    known = known_runs(reader, job) if colon and runs else known_jobs(reader)
    return [name.removeprefix(within) for name in known if name.startswith(f"{within}{incomplete}")]


def _reader(place: "ProjectPaths") -> "Reader | None":
    """Return the reader of a project's names; None without the driver or a secret."""
    from rota.model.errors import RotaError
    from rota.store.completion import FileReader, ServerReader

    if not place.shared:
        return FileReader(place.state / "rota.db")
    from rota.operations.project.locate import complete_address, load_postgres

    try:
        load_postgres("pipeline")
        return ServerReader(complete_address(place.store, place.state))
    except RotaError:
        return None


def _place(ctx: click.Context) -> "ProjectPaths | None":
    from rota.model.errors import RotaError

    invocation = ctx.find_object(Invocation) or Invocation()
    invocation.directory = invocation.directory or ctx.find_root().params.get("directory")
    try:
        return invocation.place()
    except (RotaError, OSError):
        return None


def offer_names(command: click.Command) -> None:
    """Complete names for the arguments of a command and its subcommands."""
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        offer_names(below)
        for param in below.params:
            if param.name == "name" and command.name in (AGENTS, TARGETS):
                param.type = Listed(command.name)
    for param in command.params:
        both = param.name == "name" and command.name in ("show", "explain")
        if isinstance(param, click.Argument) and (both or param.name in JOB_ARGUMENTS | RUN_ARGUMENTS):
            param.type = KnownName(runs=both or param.name in RUN_ARGUMENTS)
