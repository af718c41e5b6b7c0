"""Sentences about proposals, pools, provider limits, prompts and agents of a job."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from rota.model.agents import Access, provider_of
from rota.model.clock import say_duration
from rota.model.records import Abandoned, Job, Run, Worktree
from rota.model.spec import AfterStep, AgentWork, Carry, Draw, SessionMode, Workspace
from rota.rules.queue_order import Pool, Shortage, room_of
from rota.text.format import day_time, full_time


def say_made(job: Job, *, now: datetime) -> str | None:
    """Return who made a job with the tools, when, in which run, and until when it lasts; None for others."""
    made, tz = job.made, job.spec.schedule.timezone
    if made is None:
        return None
    run = f" in run {made.run_id}" if made.run_id else ""
    until = f", lasts until {full_time(made.expires_at, tz, now=now)}" if made.expires_at else ""
    return f"by {made.by}{run}, {full_time(made.at, tz, now=now)} ({tz}), depth {made.depth}{until}"


def say_provisional(job: Job, *, now: datetime) -> str:
    """Return that a job waits for approval, and since when."""
    since = full_time(job.provisional_at, job.spec.schedule.timezone, now=now) if job.provisional_at else ""
    return f"no next: it waits for approval since {since}; look at it with `rota approve {job.name}`"


def say_hold(pool: str, until: datetime | None, *, zone: str, now: datetime) -> str:
    """Return which provider is held and until when, by the name of its pool."""
    end = f" until {day_time(until, zone, now=now)}" if until is not None else ""
    return f"provider {provider_of(pool) or pool} held{end}"


def say_draws(draws: Sequence[Draw]) -> str:
    """Return what a run draws.

    >>> say_draws([Draw("gpu", 2), Draw("ollama")])
    'gpu × 2, ollama'
    """
    return ", ".join(draw.pool if draw.cost == 1 else f"{draw.pool} × {draw.cost}" for draw in draws)


def say_room(draws: Sequence[Draw], pools: Sequence[Pool], *, zone: str, now: datetime) -> str:
    """Return how full the pools of a run are, and whether it finds room; that of a provider bounds nothing."""
    known = {pool.name: pool for pool in pools}
    shown = [known[draw.pool] for draw in draws if draw.pool in known and provider_of(draw.pool) is None]
    room = room_of(pools)
    closed, lacking = room.closes(draws), room.lacks(draws)
    end = "room" if lacking is None else f"waits for {lacking}"
    end = end if closed is None else say_hold(closed, known[closed].held_until, zone=zone, now=now)
    return f"{', '.join(f'{pool.name} {pool.used:,} of {pool.capacity:,}' for pool in shown)} → {end}"


def say_shortage(found: Shortage, *, holders: Sequence[str] = (), behind: str | None = None) -> str:
    """Return which pool a run waits for, and why it has no room."""
    pool, needs = found.pool, f", and it needs {found.cost:,}" if found.cost > 1 else ""
    if pool.capacity < found.cost:
        gone = "" if pool.declared else " and is no longer declared"
        return f'the pool "{pool.name}" has {pool.capacity:,}{gone}{needs or ", and it needs 1"}: raise its capacity'
    if behind is not None:
        return f'the pool "{pool.name}", which is kept for {behind}: that comes first'
    by = f" by {', '.join(holders)}" if holders else ""
    return f'the pool "{pool.name}": {pool.used:,} of {pool.capacity:,} used{by}{needs}'


def say_drained(names: Sequence[str]) -> str:
    """Return for whom a run waits when all workers are drained.

    >>> say_drained(["a", "b"])
    'for a worker: all that are there are drained (a, b); `rota workers resume NAME` lets one take runs again'
    """
    told = f"all that are there are drained ({', '.join(names)})"
    return f"for a worker: {told}; `rota workers resume NAME` lets one take runs again"


def say_nobody(draws: Sequence[Draw]) -> str:
    """Return for whom a run waits that no worker takes who is there.

    >>> say_nobody([Draw("gpu"), Draw("agents")])
    'for a worker: none that is there takes runs that draw on gpu, agents; `rota workers` lists what they take'
    """
    which = f"draw on {', '.join(draw.pool for draw in draws)}" if draws else "draw on no pool"
    return f"for a worker: none that is there takes runs that {which}; `rota workers` lists what they take"


def say_abandoned(one: Abandoned, *, now: datetime) -> str:
    """Return that a function outlives its run: `still runs 12 min after its end and holds slot 0`."""
    since = "" if one.since is None else f" {say_duration(max(now - one.since, timedelta()))}"
    return f"its function still runs{since} after its end and holds slot {one.slot}"


_CARRIED = {Carry.LAST_SUMMARY: "the last summary", Carry.STATE: "the job's state"}
_PLACES = {
    Workspace.WORKTREE: "a git worktree and branch of its own for each run",
    Workspace.SCRATCH: "an empty folder for each run",
}


def say_brief(work: AgentWork) -> Iterator[tuple[str, str]]:
    """Yield what the runs of an agent job are given beyond their task, each with its label."""
    if work.session is SessionMode.RESUME:
        yield "session", "resume: each run goes on with the newest one"
    if work.carry:
        yield "carry", " and ".join(_CARRIED[word] for word in work.carry)
    if work.workspace in _PLACES:
        yield "workspace", f"{work.workspace}: {_PLACES[work.workspace]}"
    if work.trust_project:
        yield "trust", "trust_project: its program runs hooks, plugins and servers that the folder's own settings name"
    if work.after is not None:
        yield "after", say_after(work.after)


def say_after(after: AfterStep) -> str:
    """Return the step after an agent on one line.

    >>> say_after(AfterStep(command=("gh", "pr", "create")))
    'gh pr create, in its workspace'
    """
    where = "its workspace" if after.cwd.value == "workspace" else "the project"
    return f"{shlex.join(after.command) or after.shell}, in {where}"


def workspace_of(run: Run) -> Mapping[str, Any] | None:
    """Return the folder that a run was given, as it was noted; None: it had none of its own."""
    found: Mapping[str, Any] | None = run.decisions.get("workspace")
    return found


def say_place(told: Mapping[str, Any]) -> str:
    """Return the folder of a run in short."""
    return f"worktree {told['branch']}" if told.get("branch") else "scratch folder"


def say_workspace(run: Run, worktree: Worktree | None) -> str | None:
    """Return where a run worked and what became of that; None: it had no folder of its own."""
    told = workspace_of(run)
    if told is None:
        return None
    if not told.get("branch"):
        return f"{say_place(told)} {told['path']}"
    if worktree is None:
        return f"{say_place(told)}, removed" if run.status.final else say_place(told)
    kept = f", kept: {worktree.kept_why}" if worktree.kept_why else ""
    return f"{say_place(told)} in {told['path']}{kept}"


def say_session(run: Run, work: AgentWork) -> str | None:
    """Return which session a run went on with; None: its job does not resume any."""
    if work.session is not SessionMode.RESUME:
        return None
    resumed = run.decisions.get("session")
    if resumed:
        return f"resume: went on with {resumed}"
    return "resume: began a new one" if run.started_at is not None else "resume: not looked for yet"


class AgentFound(Protocol):
    """What was found of an agent on this machine."""

    @property
    def path(self) -> str | None: ...
    @property
    def logged_in(self) -> bool | None: ...
    @property
    def headless(self) -> bool | None: ...
    @property
    def problem(self) -> str | None: ...


SHOWN = 10
OWN = ("mcp__rota", "mcp_rota_", "rota_")
"""How the agents name the tools of rota's own server."""


def say_denied(tools: Sequence[str], work: AgentWork | None) -> str:
    """Return which tools were refused, and what to change; empty for none.

    >>> say_denied(["Bash"], AgentWork("claude", "claude", "anthropic"))
    'Bash: beyond `access: read`; give it `access: write` or `full`, or ask for less in the prompt'
    """
    if not tools:
        return ""
    distinct = list(dict.fromkeys(tools))
    more = f" and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
    return f"{', '.join(distinct[:SHOWN])}{more}: {_advice(distinct, work)}"


def remedy_of(found: AgentFound, keys: Sequence[str] = ()) -> str:
    """Return what to do about an agent that cannot work; `keys` are logins of this shell that its runs do not get."""
    if found.problem is None:
        return ""
    if found.path is None:
        return "install it, or start rota with a PATH that has it"
    if "://" in found.path:
        return "start that server, or name another one by OLLAMA_HOST or `options: {host: …}`"
    if found.headless is False:
        return "update it, or rota, and try `rota agents check` again"
    if found.logged_in is False and keys:
        return f"its runs do not get {keys[0]} of this shell; give it to them: `env_pass: [{keys[0]}]`"
    if found.logged_in is False:
        return "log in with it once, as the user that rota runs as, or give its runs a key by `env` or `env_pass`"
    return "try that command by hand, as the user that rota runs as"


def _advice(tools: Sequence[str], work: AgentWork | None) -> str:
    if work is None:
        return "ask the program that started them"
    if any(tool.startswith(OWN) for tool in tools):
        late = "rota's server was not there in time: try `rota mcp --list` where the run was"
        return late if work.rota_tools else "rota's own tools need `rota_tools: true`"
    if work.allowed_tools:
        return "not among its `allowed_tools`; add them there if it may use them"
    if work.access is Access.FULL:
        return "allowed by rota with `access: full`; look at the program's own settings and hooks"
    wider = "`access: write` or `full`" if work.access is Access.READ else "`access: full`"
    return f"beyond `access: {work.access}`; give it {wider}, or ask for less in the prompt"
