"""What a shell's completion offers for jobs and runs; a shell waits for it, so nothing heavy is imported."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from rota.cli.invocation import Invocation

JOB_ARGUMENTS = frozenset({"job", "jobs", "group"})
RUN_ARGUMENTS = frozenset({"run", "runs"})


class Known(click.types.StringParamType):
    """A text for which the shell offers the project's jobs, and runs where the argument takes them."""

    def __init__(self, *, runs: bool) -> None:
        self.runs = runs

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the names that begin as what was typed; none outside a project."""
        return [CompletionItem(name) for name in _names(ctx, incomplete, runs=self.runs)]


def _names(ctx: click.Context, incomplete: str, *, runs: bool) -> list[str]:
    from rota.store.names import known_jobs, known_runs

    database = _database(ctx)
    if database is None:
        return []
    job, colon, _ = incomplete.partition(":")
    known = known_runs(database, job) if colon and runs else known_jobs(database)
    return [name for name in known if name.startswith(incomplete)]


def _database(ctx: click.Context) -> Path | None:
    from rota.model.errors import RotaError

    invocation = ctx.find_object(Invocation) or Invocation()
    invocation.directory = invocation.directory or ctx.find_root().params.get("directory")
    try:
        return invocation.place().state / "rota.db"
    except (RotaError, OSError):
        return None


def offer_names(command: click.Command) -> None:
    """Let the shell offer jobs and runs for the arguments of a command that take them, by their names."""
    for param in command.params:
        both = param.name == "name" and command.name in ("show", "explain")
        if isinstance(param, click.Argument) and (both or param.name in JOB_ARGUMENTS | RUN_ARGUMENTS):
            param.type = Known(runs=both or param.name in RUN_ARGUMENTS)
