"""A command inside a run acts as that run: agents are bound by their policy, all others are recorded."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rota.cli.invocation import Invocation
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
"""What agents may type: it changes nothing, or bounds itself (`mcp`; `approve` and `ack` without a name)."""
STARTS = frozenset({"run", "trigger"})
BEYOND = ("force", "next_slot", "file")
"""Ways to start a job that pass its overlap and conditions, the queue, or the limit of an hour."""


def command_path(ctx: click.Context) -> str:
    """Return a command as it is typed, without `rota`."""
    words: list[str] = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        words.insert(0, here.info_name or "")
        here = here.parent
    return " ".join(words)


def maker_here(invocation: "Invocation") -> "Maker":
    """Return who types this command: the run whose environment this is, if it is under way in this project."""
    from rota.model.errors import ProjectMissing
    from rota.model.making import Maker
    from rota.operations.project import open_place
    from rota.operations.tools.makers import maker_of

    try:
        place = invocation.place()
    except ProjectMissing:
        return Maker()
    if not invocation.applied():
        return Maker()
    store = open_place(place, invocation.clock, create=False)
    try:
        return maker_of(store, invocation.environ)
    finally:
        store.close()


def refuse_agents(invocation: "Invocation", ctx: click.Context) -> None:
    """Refuse a command inside an agent's run that changes what agents may not change."""
    from rota.model.errors import AgentRefused

    maker = invocation.maker()
    path = command_path(ctx)
    if not maker.is_agent or (path in READS and not _approves(ctx, path)):
        return
    beyond = next((name for name in BEYOND if ctx.params.get(name)), None)
    if path in STARTS and beyond is None:
        return
    option = {"next_slot": " --next-slot", "file": " --each", "force": " --force"}.get(beyond or "", "")
    raise AgentRefused(f"`rota {path}{option}`", maker.run or maker.name)


def _approves(ctx: click.Context, path: str) -> bool:
    names = {"approve": ("job",), "ack": ("what", "everything")}.get(path, ())
    return any(ctx.params.get(name) for name in names)
