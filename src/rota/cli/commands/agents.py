"""`rota agents` and `mcp`."""

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.cli.main import listing_group
from rota.cli.output import Cell, Column, print_pairs, print_table
from rota.model.agents import Access
from rota.model.amounts import counted
from rota.model.errors import InvalidValue, ProjectMissing
from rota.model.serialize import fields_json
from rota.text.ansi import plain
from rota.text.format import ago
from rota.text.jobs import say_provider_hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.operations.agents.agents import AgentsView, AgentView
    from rota.operations.capacity import HoldView
    from rota.operations.tools.catalog import Tool
    from rota.operations.tools.toolbox import Toolbox


NONE = "no agents; a job with `prompt:` uses one, for example that of `rota init --with claude --dry-run`"
UNKNOWN = "–"
SPARE = frozenset({"PROGRAM", "HEADLESS", "CERTIFIED"})
"""Columns that a narrow terminal omits; `rota agents check` prints all."""


@listing_group("agents")
def agents_command(invocation: Invocation) -> None:
    """List agents: program, version, login, provider holds, running runs and last result.

    Each program is searched for as its runs would find it. No model is called, so the command costs nothing.
    """
    from rota.cli.commands.usage import show_subscriptions
    from rota.operations.agents.agents import agents_json

    view, zone = _look(invocation)
    if invocation.as_json:
        print_json(agents_json(view))
        return
    invocation.tell_scope()
    _tell_problem(view)
    if not view.agents:
        click.echo(NONE)
        return
    titles = ("AGENT", "PROGRAM", "VERSION", "CERTIFIED", "LOGIN", "HEADLESS", "MODEL", "ACCESS", "RUNNING")
    columns = [Column(title, spare=title in SPARE) for title in titles]
    columns += [Column("LAST RUN", flexible=True), Column("STATE", flexible=True)]
    print_table(columns, [_row(agent, zone, now=invocation.now()) for agent in view.agents])
    for agent in view.agents:
        _tell_remedy(agent)
    show_subscriptions(view.subscriptions, zone, now=invocation.now())


def _look(invocation: Invocation, name: str | None = None) -> "tuple[AgentsView, str]":
    from rota.operations.agents.agents import look_at_agents

    place = invocation.place()
    with invocation.store_if_applied() as store:
        view = look_at_agents(place, store, invocation.environ, now=invocation.now(), name=name)
        return view, invocation.zone(store) if store is not None else "UTC"


def _tell_problem(view: "AgentsView") -> None:
    if view.problem:
        click.echo(f"{view.problem}   rota check", err=True)


def _tell_remedy(view: "AgentView") -> None:
    if view.remedy:
        click.echo(f"{view.known.name}: {plain(view.remedy)}")
    if view.held is not None:
        waiting = f", {counted(view.held.waiting, 'run')} waiting" if view.held.waiting else ""
        click.echo(f"{view.known.name}: {plain(view.held.hold.why)}{waiting}   {_way_out(view.held)}")


def _way_out(view: "HoldView") -> str:
    """Return the command that ends a hold."""
    return "rota agents check" if view.hold.login else f"rota agents release {view.hold.provider}"


def _row(view: "AgentView", zone: str, *, now: datetime) -> "list[Cell | str]":
    agent, probe = view.known, view.found
    state = state_words(view, zone, now=now)
    return [
        f"{agent.name} ({agent.account})" if agent.account else agent.name,
        probe.path or agent.adapter,
        probe.version or UNKNOWN,
        _certified(view),
        _yes(probe.logged_in, "in", "out"),
        _yes(probe.headless, "yes", "no"),
        ", ".join(agent.models) or UNKNOWN,
        ", ".join(agent.access) or "read",
        f"{view.running} of {agent.max_concurrent}",
        _last(view, now=now),
        Cell(state, None if state == "ready" else "yellow" if view.held and not probe.problem else "red"),
    ]


def _certified(view: "AgentView") -> str:
    from rota.operations.agents.certify import certified_words

    if view.known.kind is None or view.known.kind.invoke is None:
        return UNKNOWN
    return certified_words(view.certified, view.found.version)


def _yes(value: bool | None, yes: str, no: str) -> "Cell | str":  # noqa: FBT001
    return UNKNOWN if value is None else Cell(yes, "green") if value else Cell(no, "red")


def _last(view: "AgentView", *, now: datetime) -> str:
    from rota.operations.text import outcome_words

    if view.last is None:
        return "never"
    at = view.last.finished_at or view.last.started_at or view.last.created_at
    return f"{view.last.handle} {outcome_words(view.last, now=now)}, {ago(at, now)} ago"


def state_words(view: "AgentView", zone: str, *, now: datetime) -> str:
    """Return the state of an agent: `ready`, what it lacks, or the end of its provider hold."""
    if view.found.problem:
        return plain(view.found.problem)
    if view.held is not None:
        return say_provider_hold(view.held.hold, zone=zone, now=now)
    return "ready"


@agents_command.command("check", cls=RotaCommand)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--all", "everything", is_flag=True, help="Check all agents; the default without NAME.")
@click.pass_obj
def check(invocation: Invocation, *, name: str | None, everything: bool) -> int:
    """Check all agents, or one: path, supported limits, jobs, problems and remedies.

    A provider that is held for a missing login is released when its agents work, unless an agent's run checks them.
    Exit codes: 0 if every agent is ready, else 1. No model is called.
    """
    from rota.cli.commands.usage import show_subscriptions
    from rota.operations.agents.agents import agents_json

    if name and everything:
        raise InvalidValue("NAME and --all exclude each other", hint="omit one of them")
    full_name = invocation.full_name(name) if name else None
    view, zone = _look(invocation, full_name)
    released = _release_logged_in(invocation, view)
    if released:
        view, zone = _look(invocation, full_name)
    code = 1 if any(agent.found.problem for agent in view.agents) else 0
    if invocation.as_json:
        print_json({"ok": not code, "released": released, **agents_json(view)})
        return code
    _tell_problem(view)
    if not view.agents:
        click.echo(NONE)
    for agent in view.agents:
        _tell_whole(agent, zone, now=invocation.now())
    show_subscriptions(view.subscriptions, zone, now=invocation.now())
    for provider in released:
        click.echo(f"provider {provider} is released")
    return code


def _release_logged_in(invocation: Invocation, view: "AgentsView") -> list[str]:
    from rota.operations.agents.agents import release_logged_in

    waits = any(agent.held is not None and agent.held.hold.login for agent in view.agents)
    if not waits or invocation.maker().is_agent:
        return []
    with invocation.store() as (_, store):
        released = release_logged_in(store, view.agents, now=invocation.now())
        if released:
            invocation.wake()
    return released


def _tell_whole(view: "AgentView", zone: str, *, now: datetime) -> None:
    state = state_words(view, zone, now=now)
    click.echo(f"{view.known.name}  {click.style(state, fg='green' if state == 'ready' else 'red')}")
    print_pairs(_pairs(view, now=now))


def _pairs(view: "AgentView", *, now: datetime) -> "Iterable[tuple[str, str]]":
    agent, probe = view.known, view.found
    yield "adapter", agent.adapter + (f", provider {agent.provider}" if agent.provider else "")
    yield "program", f"{probe.path or 'not found'} {probe.version}".rstrip()
    untold = "as in the function" if agent.function else "unknown without a request to a model"
    yield "logged in", {True: "yes", False: "no", None: untold}[probe.logged_in]
    from rota.operations.agents.certify import certified_words

    if agent.kind is not None and agent.kind.invoke is not None:
        yield "certified", certified_words(view.certified, probe.version)
    yield "headless", {True: "yes", False: "no", None: "unknown before it starts"}[probe.headless]
    for name, folder in view.login.items():
        yield "account", f"{agent.account}, {name}={plain(folder)}"
        if view.found.logged_in is None:
            yield "log in", plain(view.sign_in)
    if agent.kind is not None:
        yield "can keep", _capabilities(view)
    yield "model", ", ".join(agent.models) or f"the {'function' if agent.function else 'program'}'s own"
    yield "access", ", ".join(agent.access) or "read"
    yield "running", f"{view.running} of {agent.max_concurrent} (pool {view.pool})"
    yield "jobs", ", ".join(spec.name for spec in agent.specs) or "none"
    yield "last run", _last(view, now=now)
    if view.remedy:
        yield "remedy", plain(view.remedy)
    if view.held is not None:
        yield "held", f"{plain(view.held.hold.why)}   {_way_out(view.held)}"


def _capabilities(view: "AgentView") -> str:
    kind = view.known.kind
    assert kind is not None
    can = kind.capabilities
    named = ("allowed_tools", "max_turns", "max_usd", "loop_guard", "model")
    told = [name for name in named if getattr(can, name)]
    told += ["session: resume"] if can.resume else []
    told += ["rota_tools"] if can.tools_server else []
    told += ["trust_project"] if can.trust else []
    told.append(f"access {' '.join(level.value for level in Access if level in can.access)}")
    return ", ".join(told)


@agents_command.command("certify", cls=RotaCommand)
@click.argument("name", metavar="[NAME]", required=False)
@click.pass_obj
def certify(invocation: Invocation, *, name: str | None) -> int:
    """Try the installed programs of all agents, or of one: each attempts the acts that `access: read` forbids.

    A stub on this machine answers instead of the model, so nothing is sent and nothing is charged. Each program works
    in a temporary folder without your settings and logins. It attempts to write a file, to change one by a command,
    to reach the network, to start an MCP server of the project, and to write outside the workspace. The effect
    counts, not the answer. Exit codes: 0 if all were denied, else 1.
    """
    from rota.operations.agents.certify import certifiable, certified_json, certified_words, certify_agents

    view, _ = _look(invocation, invocation.full_name(name) if name else None)
    chosen = certifiable(view.agents)
    if name and not chosen:
        raise InvalidValue(f"{name} cannot be certified", hint="claude, codex, gemini and opencode can")

    def tell(agent: str, attempt: str) -> None:
        if not invocation.as_json:
            click.echo(f"{agent}: {attempt} …", err=True)

    with invocation.store() as (place, store):
        certifications = certify_agents(
            store, chosen, place=place, environ=invocation.environ, clock=invocation.now, tell=tell
        )
    if invocation.as_json:
        print_json(certified_json(certifications))
    for certification in certifications if not invocation.as_json else ():
        words = certified_words(certification, certification.version)
        click.echo(f"{certification.adapter} {certification.version}: {'certified' if certification.passed else words}")
        print_pairs((attempt, outcome.value) for attempt, outcome in certification.attempts.items())
    return 0 if all(certification.passed for certification in certifications) else 1


@agents_command.command("release", cls=RotaCommand)
@click.argument("name")
@dry_run_option
@click.pass_obj
def release(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Release the hold of the provider NAME, or of the provider of the agent NAME, before it expires."""
    from rota.operations.capacity import hold_json, release_provider

    with invocation.changing(dry_run=dry_run) as store:
        view = release_provider(store, name, now=invocation.now(), dry_run=dry_run)
    if invocation.as_json:
        print_json({**hold_json(view), "dry_run": dry_run})
        return
    verb = "would be released" if dry_run else "is released"
    waiting = f"; {counted(view.waiting, 'run')} waited for it" if view.waiting else ""
    click.echo(f"provider {view.hold.provider} {verb}{waiting}")
    tell_unchanged(dry_run=dry_run)


@click.command("mcp", cls=RotaCommand)
@click.option("--list", "listing", is_flag=True, help="List the tools and exit.")
@click.option(
    "--write-plugin", "plugin", metavar="FOLDER", help="Write a plugin for Claude Code and Codex into FOLDER and exit."
)
@click.pass_obj
def mcp_command(invocation: Invocation, *, listing: bool, plugin: str | None) -> None:
    """Serve the tools for agents over MCP on standard input and output; the log goes to standard error.

    The server exits at the end of its input. Inside a run it acts as that run, within `agent_policy`; otherwise as
    `user`. A run of an agent needs `rota_tools: true`.
    With --json it prints the tools with their JSON Schemas and exits.
    """
    if plugin is not None:
        _write_plugin(invocation, Path(plugin))
        return
    if listing or invocation.as_json:
        _show(invocation)
        return
    from rota.mcp import serve

    with ExitStack() as opened:
        serve(ProjectTools(invocation, opened))


def _write_plugin(invocation: Invocation, given: Path) -> None:
    from rota.operations.admin.service import own_program
    from rota.operations.project.plugin import plugin_files, write_plugin

    folder = (invocation.cwd / given.expanduser()).absolute()
    try:
        project = invocation.place().folder
    except ProjectMissing:
        project = None
    contents = plugin_files(own_program(), project)
    write_plugin(folder, contents)
    if invocation.as_json:
        print_json({"folder": str(folder), "files": list(contents), "project": str(project) if project else None})
        return
    click.echo(f"wrote {folder}: a skill, and the tools of {project or 'the project in which the agent works'}")
    click.echo(f"Claude Code: claude --plugin-dir {folder}")
    click.echo(f"Codex: copy {folder / 'skills' / 'rota'} to ~/.codex/skills/, then codex mcp add rota -- rota mcp")


class ProjectTools:
    """The tools of the server's project, which opens at the first call."""

    def __init__(self, invocation: Invocation, opened: ExitStack) -> None:
        from rota.model.agents import PERMISSIONS
        from rota.operations.tools.catalog import tools_of

        self.tools: tuple[Tool, ...] = tools_of(self.call, permissions=invocation.environ.get(PERMISSIONS, ""))
        self._invocation = invocation
        self._opened = opened
        self._toolbox: Toolbox | None = None

    def call(self, name: str, arguments: "Mapping[str, Any]") -> dict[str, Any]:
        """Call a tool; raise RotaError if it is refused or there is no project."""
        if self._toolbox is None:
            self._toolbox = self._open()
        return self._toolbox.call(name, arguments)

    def _open(self) -> "Toolbox":
        from rota.operations.tools.context import project_declares
        from rota.operations.tools.toolbox import Toolbox

        invocation = self._invocation
        place, store = self._opened.enter_context(invocation.store())
        declare = project_declares(place, invocation.environ)
        return Toolbox(store, place.state, invocation.clock, maker=invocation.maker(), declare=declare)


def _show(invocation: Invocation) -> None:
    from rota.operations.tools.catalog import tools_of

    tools = tools_of(_uncalled)
    if invocation.as_json:
        shown = ("name", "description", "input_schema", "output_schema", "annotations")
        print_json({"tools": [fields_json(tool, *shown) for tool in tools]})
        return
    width = max(len(tool.name) for tool in tools)
    for tool in tools:
        click.echo(f"{tool.name:{width}}  {tool.description.partition('. ')[0].rstrip('.')}")


def _uncalled(name: str, _: "Mapping[str, Any]") -> NoReturn:
    raise AssertionError(f"{name} is only shown")
