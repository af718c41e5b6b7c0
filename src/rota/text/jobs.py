"""Sentences about proposals, pools, provider limits, prompts and agents of a job."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from rota.model.agents import Access, AgentProblem, McpServer, ProviderHold, provider_of, provider_pool
from rota.model.amounts import counted, listed, say_dollars
from rota.model.clock import say_duration
from rota.model.records import Abandoned, Job, Run, Worktree
from rota.model.spec import (
    AfterStep,
    AgentWork,
    Carry,
    Deliver,
    DeliverWhen,
    Draw,
    JobSpec,
    Kind,
    SessionMode,
    Workspace,
)
from rota.text.format import day_time, full_time

if TYPE_CHECKING:
    from rota.rules.queue_order import Pool, Shortage


def say_made(job: Job, *, now: datetime) -> str | None:
    """Return the author of a job that was made with the tools, its run and the times; None for other jobs."""
    provenance, tz = job.made, job.spec.schedule.timezone
    if provenance is None:
        return None
    run = f" in run {provenance.run_id}" if provenance.run_id else ""
    until = f", expires {full_time(provenance.expires_at, tz, now=now)}" if provenance.expires_at else ""
    return f"by {provenance.by}{run}, {full_time(provenance.at, tz, now=now)} ({tz}), depth {provenance.depth}{until}"


def say_provisional(job: Job, *, now: datetime) -> str:
    """Return the sentence about a job that waits for approval."""
    since = full_time(job.provisional_at, job.spec.schedule.timezone, now=now) if job.provisional_at else ""
    return f"no next fire: waiting for approval since {since}; read it with `rota approve {job.name}`"


def say_hold(pool: str, until: datetime | None, *, zone: str, now: datetime, problem: str = "") -> str:
    """Return the sentence about the hold of a provider, by the name of its pool."""
    at = day_time(until, zone, now=now) if until is not None else ""
    end = f" until {at}" if at else ""
    if problem == AgentProblem.AUTH:
        end = " until it is logged in" + (f", next check {at}" if at else "")
    return f"provider {provider_of(pool) or pool} held{end}"


def say_provider_hold(hold: ProviderHold, *, zone: str, now: datetime) -> str:
    """Return the sentence about a stored hold of a provider."""
    return say_hold(provider_pool(hold.provider), hold.until, zone=zone, now=now, problem=hold.problem)


def say_draws(draws: Sequence[Draw]) -> str:
    """Return the pools of a run with their costs.

    >>> say_draws([Draw("gpu", 2), Draw("ollama")])
    'gpu × 2, ollama'
    """
    return ", ".join(draw.pool if draw.cost == 1 else f"{draw.pool} × {draw.cost}" for draw in draws)


def say_room(draws: Sequence[Draw], pools: "Sequence[Pool]", *, zone: str, now: datetime) -> str:
    """Return the usage of the pools of a run, and whether there is room; the pool of a provider has no limit."""
    named = {pool.name: pool for pool in pools}
    shown = [named[draw.pool] for draw in draws if draw.pool in named and provider_of(draw.pool) is None]
    from rota.rules.queue_order import room_of

    room = room_of(pools)
    closed, lacking = room.closes(draws), room.lacks(draws)
    end = "room" if lacking is None else f"waits for {lacking}"
    end = (
        end
        if closed is None
        else say_hold(closed, named[closed].held_until, zone=zone, now=now, problem=named[closed].held_for)
    )
    return f"{', '.join(f'{pool.name} {pool.used:,} of {pool.capacity:,}' for pool in shown)} → {end}"


def say_shortage(shortage: "Shortage", *, holders: Sequence[str] = (), behind: str | None = None) -> str:
    """Return the pool that a run waits for, and the reason."""
    pool, needs = shortage.pool, f", and it needs {shortage.cost:,}" if shortage.cost > 1 else ""
    if pool.capacity < shortage.cost:
        gone = "" if pool.declared else " and is no longer declared"
        return f'the pool "{pool.name}" has {pool.capacity:,}{gone}{needs or ", and it needs 1"}: raise its capacity'
    if behind is not None:
        return f'the pool "{pool.name}", which is reserved for {behind}'
    by = f" by {', '.join(holders)}" if holders else ""
    return f'the pool "{pool.name}": {pool.used:,} of {pool.capacity:,} used{by}{needs}'


def say_drained(names: Sequence[str]) -> str:
    """Return the sentence about a run when all workers are drained.

    >>> say_drained(["a", "b"])
    'for a worker: all running workers are drained (a, b); `rota workers resume NAME` resumes one'
    """
    drained = f"all running workers are drained ({', '.join(names)})"
    return f"for a worker: {drained}; `rota workers resume NAME` resumes one"


def say_no_worker(draws: Sequence[Draw]) -> str:
    """Return the sentence about a run that no live worker accepts.

    >>> say_no_worker([Draw("gpu"), Draw("agents")])
    'for a worker: no running worker accepts runs that use gpu, agents; `rota workers` lists their pools'
    """
    which = f"use {', '.join(draw.pool for draw in draws)}" if draws else "use no pool"
    return f"for a worker: no running worker accepts runs that {which}; `rota workers` lists their pools"


def say_abandoned(function: Abandoned, *, now: datetime) -> str:
    """Return the sentence about a function that outlives its run."""
    since = "" if function.since is None else f" {say_duration(max(now - function.since, timedelta()))}"
    return f"its function is still running{since} after the end of the run and keeps slot {function.slot}"


_CARRIED = {Carry.LAST_SUMMARY: "the last summary", Carry.STATE: "the job's state"}
_PLACES = {
    Workspace.WORKTREE: "a git worktree and branch of its own for each run",
    Workspace.SCRATCH: "an empty folder for each run",
}


def say_brief(work: AgentWork) -> Iterator[tuple[str, str]]:
    """Yield the context of an agent job's runs beyond their task, with labels."""
    if work.session is SessionMode.RESUME:
        first = f", the first one that of {work.session_of}" if work.session_of else ""
        turns = f", at most {counted(work.session_max_turns, 'turn')}" if work.session_max_turns else ""
        age = f", at most {say_duration(work.session_max_age)} old" if work.session_max_age else ""
        yield "session", f"resume: each run continues the newest one{first}{turns}{age}"
    if work.carry:
        yield "carry", " and ".join(_CARRIED[word] for word in work.carry)
    if work.workspace in _PLACES:
        yield "workspace", f"{work.workspace}: {_PLACES[work.workspace]}"
    if work.trust_project:
        yield "trust", "trust_project: its program runs hooks, plugins and servers that the folder's own settings name"
    if work.mcp_servers:
        yield "servers", ", ".join(map(_say_server, work.mcp_servers))
    if work.profile:
        yield "profile", work.profile
    if work.after is not None:
        yield "after", say_after(work.after)
    if work.deliver is not None:
        yield "deliver", say_deliver(work.deliver)


def _say_server(server: McpServer) -> str:
    return f"{server.name} ({', '.join(server.tools) or 'all tools'})"


def say_deliver(deliver: Deliver) -> str:
    """Return the targets of an answer on one line.

    >>> say_deliver(Deliver(("phone",)))
    'the answer to phone, if it says something, and each failure'
    """
    to = " and ".join(deliver.to)
    if deliver.when is DeliverWhen.FAILED:
        return f"each failure to {to}"
    says = ", if it says something," if deliver.when is DeliverWhen.SAID else ""
    return f"the answer to {to}{says} and each failure"


def say_after(after: AfterStep) -> str:
    """Return the step after an agent on one line.

    >>> say_after(AfterStep(command=("gh", "pr", "create")))
    'gh pr create, in its workspace'
    """
    import shlex

    where = "its workspace" if after.cwd.value == "workspace" else "the project"
    return f"{shlex.join(after.command) or after.shell}, in {where}"


def workspace_of(run: Run) -> Mapping[str, Any] | None:
    """Return the recorded folder of a run; None if it had no own folder."""
    workspace: Mapping[str, Any] | None = run.decisions.get("workspace")
    return workspace


def say_place(workspace: Mapping[str, Any]) -> str:
    """Return the kind of a run's folder."""
    return f"worktree {workspace['branch']}" if workspace.get("branch") else "scratch folder"


def say_workspace(run: Run, worktree: Worktree | None) -> str | None:
    """Return the folder of a run and its current state; None if it had no own folder."""
    workspace = workspace_of(run)
    if workspace is None:
        return None
    place = say_place(workspace)
    if not workspace.get("branch"):
        return f"{place} {workspace['path']}"
    if worktree is None:
        return f"{place}, removed" if run.status.final else place
    kept = f", kept: {worktree.kept_why}" if worktree.kept_why else ""
    return f"{place} in {workspace['path']}{kept}"


def say_session(run: Run, work: AgentWork) -> str | None:
    """Return the resumed session of a run; None if its job does not resume sessions."""
    if work.session is not SessionMode.RESUME:
        return None
    resumed = run.decisions.get("session")
    if resumed:
        return f"resume: continued {resumed}"
    if over := run.decisions.get("session_over"):
        return f"resume: started a new one, since {over}"
    return "resume: started a new one" if run.started_at is not None else "resume: not determined yet"


class AgentFound(Protocol):
    """The state of an agent program on this machine."""

    @property
    def path(self) -> str | None: ...
    @property
    def logged_in(self) -> bool | None: ...
    @property
    def headless(self) -> bool | None: ...
    @property
    def problem(self) -> str | None: ...


TOOLS_SHOWN = 10
OWN_TOOLS = ("mcp__rota", "mcp_rota_", "rota_")
"""Prefixes of the tools of rota's own server, by agent."""


def say_denied(tools: Sequence[str], work: AgentWork | None) -> str:
    """Return the refused tools and a remedy; empty for none.

    >>> say_denied(["Bash"], AgentWork("claude", "claude", "anthropic"))
    'Bash: beyond `access: read`; set `access: write` or `full`, or reduce the task'
    """
    if not tools:
        return ""
    distinct = list(dict.fromkeys(tools))
    return f"{listed(distinct, TOOLS_SHOWN)}: {_advice(distinct, work)}"


def remedy_of(found: AgentFound, keys: Sequence[str] = (), *, sign_in: str = "") -> str:
    """Return the remedy for an agent that cannot work; `keys`: logins of this shell that its runs do not get.

    `sign_in`: the command that logs in to its account.
    """
    if found.problem is None:
        return ""
    if found.path is None:
        return "install it, or start rota with a PATH that includes it"
    if "://" in found.path:
        return "start that server, or set OLLAMA_HOST or `options: {host: …}`"
    if found.headless is False:
        return "update it, or rota, and try `rota agents check` again"
    if found.logged_in is False and keys:
        return f"its runs do not inherit {keys[0]} of this shell; pass it on: `env_pass: [{keys[0]}]`"
    if found.logged_in is False and sign_in:
        return f"log in to its account: {sign_in}"
    if found.logged_in is False:
        return "log in with it once, as the user of rota, or set a key with `env` or `env_pass`"
    return "try that command by hand, as the user of rota"


def _advice(tools: Sequence[str], work: AgentWork | None) -> str:
    if work is None:
        return "ask the program that started them"
    if any(tool.startswith(OWN_TOOLS) for tool in tools):
        late = "rota's MCP server did not start in time: try `rota mcp --list` in the folder of the run"
        return late if work.rota_tools else "rota's own tools need `rota_tools: true`"
    if work.allowed_tools:
        return "not among its `allowed_tools`; add them to allow them"
    if work.access is Access.FULL:
        return "allowed by rota with `access: full`; check the settings and hooks of the program"
    wider = "`access: write` or `full`" if work.access is Access.READ else "`access: full`"
    return f"beyond `access: {work.access}`; set {wider}, or reduce the task"


def limit_words(spec: JobSpec) -> str:
    """Return the limits of each run of a job, including defaults; empty for a group."""
    if spec.work.kind is Kind.GROUP:
        return ""
    timeout = f"timeout {say_duration(spec.work.timeout)}" if spec.work.timeout else "no timeout"
    agent = agent_limits(spec.work.agent) if spec.work.agent is not None else []
    return ", ".join([timeout, counted(spec.retry.max_attempts, "attempt"), *agent])


def agent_limits(work: AgentWork) -> list[str]:
    """Return the limits of each run of an agent."""
    turns = [" or ".join(choice.title for choice in work.choices)] if work.choices else []
    turns += [] if work.max_turns is None else [counted(work.max_turns, "turn")]
    return turns + ([] if work.max_usd is None else [say_dollars(work.max_usd)])
