"""Agents as configured, their tasks, results and work items, and rate limits of their providers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A piece of work that one run has claimed. `claim` is the source's own note of how it holds it."""

    id: str
    title: str
    description: str = ""
    url: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    claim: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkReport:
    """How the run that held an item ended, as its source is told."""

    success: bool
    run: str
    summary: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """Who asks a source for an item: `claim` names this one request for good, also after a crash."""

    claim: str
    job: str
    run: str
    asked_at: datetime
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkAhead:
    """What a source has to offer, seen without claiming; `open` None: it does not say how many."""

    open: int | None = None
    next: WorkItem | None = None


class Source(Protocol):
    """A work source. Every call may be made again with the same claim, after a crash or a lost answer."""

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item, None where there is none; raises SourceError."""
        ...

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Tell how the work on a claimed item ended; the claim is over then."""
        ...

    def release(self, item: WorkItem, /) -> None:
        """Give a claimed item back, so that it can be claimed again."""
        ...

    def release_claim(self, request: WorkRequest, /) -> None:
        """Give back whatever this request may have claimed: nobody noted what it was."""
        ...

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return what there is, and claim nothing."""
        ...


class Access(StrEnum):
    """What an agent may do to the project; each adapter translates it (R-30)."""

    READ = "read"
    WRITE = "write"
    FULL = "full"


class AgentProblem(StrEnum):
    """Why an agent's run is no success. Each value is a reason of FAILED."""

    AGENT_ERROR = "agent_error"
    DENIED = "denied"
    AUTH = "auth"
    QUOTA = "quota"
    OUTAGE = "outage"
    RESULT_INVALID = "result_invalid"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which limits an adapter keeps, and what it reports; a job that sets another one is refused at load (R-30)."""

    allowed_tools: bool = False
    max_turns: bool = False
    max_usd: bool = False
    resume: bool = False
    cost: bool = False
    tools_server: bool = False
    """Whether it can be given rota's own tools over MCP."""
    model: bool = True
    """Whether it can be told which model to use."""
    access: frozenset[Access] = frozenset(Access)
    """Which levels of access it keeps."""
    trust: bool = False
    """Whether it can be kept from running code of the folder that it works in."""


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One task for an agent. `prompt` is complete: envelope, task, work item, what is carried over."""

    prompt: str
    model: str | None = None
    access: Access = Access.READ
    max_turns: int | None = None
    max_usd: float | None = None
    allowed_tools: tuple[str, ...] = ()
    session_id: str | None = None
    """The session to go on with; None: a fresh one."""
    folder: str = ""
    """The run's own folder: files of an invocation lie there."""
    cwd: str = ""
    run_id: str = ""
    job: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    item: WorkItem | None = None
    """The piece of work that the run has claimed, if its job has a work source."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the file says about this agent beyond the common keys (`custom` uses it)."""
    sessions: str = ""
    """The folder in which the program keeps its sessions, where its adapter reads them; empty: none."""
    tools_server: tuple[str, ...] = ()
    """The command that serves rota's tools over MCP; empty: none."""
    protected: tuple[str, ...] = ()
    """Files and folders that it must not change: what they say is run outside its access."""
    state: str = ""
    """The state folder, which it must neither read nor change but for its own `folder` and `cwd`; empty: none."""
    trust_project: bool = False
    """Whether the program may run code of the folder that it works in: hooks, plugins and servers of its settings."""
    cancelled: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What an agent did. Unknown figures are None, never 0."""

    summary: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: float | None = None
    model: str | None = None
    session_id: str | None = None
    denied_tools: tuple[str, ...] = ()
    turns: int | None = None
    problem: AgentProblem | None = None
    error: str | None = None
    resets_at: datetime | None = None
    """When a provider that refuses (`quota`) takes work again, where it said so."""
    usd_is_total: bool = False
    """Whether `usd` is that of the whole session, also of its earlier runs."""
    tokens_are_total: bool = False
    """The same of `tokens_in`, `tokens_cached` and `tokens_out`."""
    tokens_cached: int | None = None
    """How many of `tokens_in` the provider read from its cache."""
    session_full: bool = False
    """Whether the session has no room for a further prompt: every later run of it would fail as well."""


@dataclass(frozen=True, slots=True)
class AgentInvocation:
    """How a task becomes a process: argv, further environment, standard input, and files in the run's folder."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How the process of a task ended: its exit code, what it wrote to standard output, and to standard error."""

    exit_code: int | None
    stdout: str
    stderr: str = ""
    stopped: bool = False
    """Whether it was stopped: timed out, cancelled or shut down."""
    ended_at: datetime | None = None
    """When it ended, in the zone of the machine: "resets 11:00" means the next one after it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """How to find out about an installed agent: the commands that tell its version and whether it is logged in."""

    version: tuple[str, ...]
    login: tuple[str, ...] = ()
    login_env: tuple[str, ...] = ()
    """Variables that are a login of their own, such as an API key."""
    report: tuple[str, ...] = ()
    """Asked where `login` says no: a report that tells whether the program needs that login."""
    headless: tuple[str, ...] = ()
    """The command that lists the options with which it runs without a terminal."""
    options: tuple[str, ...] = ()
    """Those of them that rota uses: a version without one of them is too old, or too new."""


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A session to go on with, and what it had cost before: the figures of some programs are totals."""

    id: str
    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    adapter: str = ""
    """Whose session it is; no other program knows it."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What one run of an agent is given beyond its job's definition; found step by step before its start."""

    condition_outputs: tuple[str, ...] = ()
    """What the conditions wrote, in their order."""
    session: AgentSession | None = None
    last_summary: str | None = None
    item: WorkItem | None = None
    workspace: str | None = None
    """The folder to work in, in the place of the job's own; None: that one."""


NO_BRIEF = Brief()


PROVIDER = "provider:"
PLENTY = 1_000_000
"""The room of a provider's pool: it bounds nothing, but has none at all while the provider is held."""


def provider_pool(provider: str) -> str:
    """Return the pool that every run of a provider draws on.

    >>> provider_pool("anthropic")
    'provider:anthropic'
    """
    return f"{PROVIDER}{provider}"


def provider_of(pool: str) -> str | None:
    """Return the provider whose pool this is, None for any other pool.

    >>> provider_of("provider:anthropic"), provider_of("gpu")
    ('anthropic', None)
    """
    return pool.removeprefix(PROVIDER) if pool.startswith(PROVIDER) else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that its provider refused: when it began and ended, what was said, and until when, where that was said."""

    began_at: datetime
    at: datetime
    why: str
    resets_at: datetime | None = None
    run_id: str | None = None
    outage: bool = False
    """Whether the provider failed instead of refusing: it is probed sooner, and more often."""


@dataclass(frozen=True, slots=True)
class ProviderHold:
    """A provider that took no more work. `until` None: that is over, and only the count of its refusals is left."""

    provider: str
    until: datetime | None
    stated: bool
    """Whether the provider said until when."""
    refusals: int
    """How often in a row nobody could say until when: each time the next wait is twice as long."""
    why: str
    run_id: str | None
    set_at: datetime
