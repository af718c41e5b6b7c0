"""A command inside a run acts as that run: agents are bound by their policy, all others are recorded."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rota.cli.invocation import Invocation
    from rota.model.errors import RotaError
    from rota.model.making import Maker

READS = frozenset(
    {
        *(
            "ack",
            "agents",
            "agents check",
            "approve",
            "audit",
            "budgets",
            "check",
            "completion",
            "deliveries",
            "doctor",
            "explain",
            "export",
        ),
        *("groups", "groups show", "help", "history", "import", "list", "logs", "mcp", "next", "queue", "schema"),
        *("show", "simulate", "status", "usage", "verify", "workers"),
    }
)
"""What agents may type: it changes nothing, or bounds itself (`mcp`)."""
ACTS = {"approve": ("job",), "ack": ("what", "everything"), "simulate": ("svg",)}
"""Params with which a command that agents may type changes something, or writes a file: then it is an act."""
STARTS = frozenset({"run", "trigger"})
BEYOND = ("force", "next_slot", "file")
"""Ways to start a job that pass its overlap and conditions, the queue, or the limit of an hour."""
STATELESS = frozenset({"check", "completion", "help", "import", "schema"})
"""What opens no state: a maker without rights may type it too."""


def command_path(ctx: click.Context) -> str:
    """Return a command as it is typed, without `rota`."""
    words: list[str] = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        words.insert(0, here.info_name or "")
        here = here.parent
    return " ".join(words)


def maker_here(invocation: "Invocation") -> "Maker":
    """Return who types this command inside a run: that run, if it is live in the project that the command is for."""
    from rota.model.errors import ProjectMissing
    from rota.operations.project import open_place
    from rota.operations.tools.makers import RUN_ID, maker_of, stranger

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
    """Refuse a command inside an agent's run that changes what agents may not change, and all without rights."""
    from rota.model.errors import AgentRefused

    path = command_path(ctx)
    if path in STATELESS or (path == "mcp" and _only_lists(invocation, ctx)):
        return
    maker = invocation.maker()
    if maker.unknown is not None:
        raise _unknown(invocation, maker.unknown, path)
    if not maker.is_agent:
        return
    if path == "mcp":
        from rota.operations.tools.makers import refuse_toolless

        refuse_toolless(maker)
    acts = next((name for name in ACTS.get(path, ()) if ctx.params.get(name)), None)
    beyond = next((name for name in BEYOND if ctx.params.get(name)), None) if path in STARTS else None
    if (path in READS and acts is None) or (path in STARTS and beyond is None):
        return
    option = f" {_spelled(ctx, acts or beyond)}".rstrip()
    raise AgentRefused(f"`rota {path}{option}`", maker.run or maker.name)


def _only_lists(invocation: "Invocation", ctx: click.Context) -> bool:
    """Tell whether `rota mcp` only prints the tools, which are the same everywhere."""
    return invocation.as_json or bool(ctx.params.get("listing"))


def _unknown(invocation: "Invocation", run_id: str, path: str) -> "RotaError":
    from rota.model.errors import ProjectMissing, RunUnknown

    try:
        where = str(invocation.place().folder)
    except ProjectMissing:
        where = str(invocation.cwd)
    return RunUnknown(run_id, f"`rota {path}`", where)


def _spelled(ctx: click.Context, name: str | None) -> str:
    """Return the option of a param as it is typed; empty for an argument."""
    found = next((param for param in ctx.command.params if param.name == name), None)
    return found.opts[-1] if isinstance(found, click.Option) else ""
