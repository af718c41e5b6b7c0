"""Agents: their tasks, results and work items, and the rate limits of their providers."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field


class WorkItem(Struct, frozen=True):
    """A claimed item of a work source. `claim` is private data of the source."""

    id: str
    title: str
    description: str = ""
    url: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    claim: Mapping[str, Any] = field(default_factory=dict)


class WorkReport(Struct, frozen=True):
    """The report to a source about the run of an item."""

    success: bool
    run: str
    summary: str = ""
    error: str = ""


class WorkRequest(Struct, frozen=True):
    """A request for an item; `claim` identifies it, also after a crash."""

    claim: str
    job: str
    run: str
    asked_at: datetime
    params: Mapping[str, Any] = field(default_factory=dict)


class WorkAhead(Struct, frozen=True):
    """The open items of a source, read without a claim; `open` None: their number is unknown."""

    open: int | None = None
    next: WorkItem | None = None


class Source(Protocol):
    """A work source. Every call may be repeated with the same claim after a crash or a lost answer."""

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item, None for none; raise SourceError."""

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Report the result of a claimed item; this ends the claim."""

    def release(self, item: WorkItem, /) -> None:
        """Release a claimed item, so that it can be claimed again."""

    def release_claim(self, request: WorkRequest, /) -> None:
        """Release any item of this request: its answer was not stored."""

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return the open items without a claim."""


class Access(StrEnum):
    """The access of an agent to the project; each adapter translates it."""

    READ = "read"
    ASK = "ask"
    """As `read`; a person permits each further tool call."""
    WRITE = "write"
    FULL = "full"


KEPT_ALONE = frozenset({Access.READ, Access.WRITE, Access.FULL})
"""The levels that a program enforces without a person."""


PERMISSIONS = "ROTA_PERMISSIONS"
"""The variable that makes the server of a run decide about its tool calls: `only` that, or `also`."""


class AgentProblem(StrEnum):
    """Why an agent's run failed. Each value is a reason of FAILED."""

    AGENT_ERROR = "agent_error"
    DENIED = "denied"
    AUTH = "auth"
    QUOTA = "quota"
    OUTAGE = "outage"
    RESULT_INVALID = "result_invalid"


class Attempted(StrEnum):
    """The end of an attempt at something forbidden; `untried`: the program did not get so far."""

    DENIED = "denied"
    DONE = "done"
    UNTRIED = "untried"


class Certification(Struct, frozen=True):
    """The attempts of a version of a program at what `access: read` forbids, by class."""

    adapter: str
    version: str
    at: datetime
    attempts: Mapping[str, Attempted] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether everything was denied."""
        return bool(self.attempts) and all(each is Attempted.DENIED for each in self.attempts.values())


class Capabilities(Struct, frozen=True):
    """The limits and reports that an adapter supports; a job with an unsupported limit is refused at load."""

    allowed_tools: bool = False
    max_turns: bool = False
    max_usd: bool = False
    counts_turns: bool = False
    """Whether rota counts its turns and stops it at `max_turns`: the program itself has no such limit."""
    loop_guard: bool = False
    """Whether its stream shows tool calls, so that rota can count equal ones."""
    resume: bool = False
    cost: bool = False
    tools_server: bool = False
    """Whether it accepts rota's tools over MCP."""
    model: bool = True
    """Whether the model can be chosen."""
    access: frozenset[Access] = KEPT_ALONE
    trust: bool = False
    """Whether it can ignore code of its working folder."""
    args: bool = False
    """Whether it takes further options."""
    system_prompt: bool = False
    """Whether a text can be added to its system prompt."""
    add_dirs: bool = False
    """Whether it can work in further folders."""
    mcp_servers: bool = False
    """Whether it can be given MCP servers, each with the tools that it may call."""
    profile: bool = False
    """Whether it has named settings of the user."""
    fork: bool = False
    """Whether it can go on in a copy of a session."""
    windows: bool = False
    """Whether it reports how full the windows of its subscription are."""


class McpServer(Struct, frozen=True):
    """An MCP server for an agent: a command or an address, and the tools that it may call with every access."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    tools: tuple[str, ...] = ()
    """The tools that may be called; empty: all, which only full access permits."""
    env_pass: tuple[str, ...] = ()
    """The variables of the run that a program with a closed environment passes on to the server."""


class AgentTask(Struct, frozen=True):
    """A task for an agent. `prompt` is complete: envelope, task, work item and carried-over data."""

    prompt: str
    model: str | None = None
    access: Access = Access.READ
    max_turns: int | None = None
    max_usd: float | None = None
    allowed_tools: tuple[str, ...] = ()
    session_id: str | None = None
    """The session to resume; None: a new one."""
    fork: bool = False
    """Whether a copy of the session goes on, where the program can make one."""
    folder: str = ""
    """The run's folder, with the files of the invocation."""
    cwd: str = ""
    run_id: str = ""
    job: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    item: WorkItem | None = None
    """The claimed item of a job with a work source."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the agent in the file (for `custom`)."""
    sessions: str = ""
    """The folder of the program's sessions, if its adapter reads them; empty: none."""
    tools_server: tuple[str, ...] = ()
    """The command that serves rota's tools over MCP; empty: none."""
    protected: tuple[str, ...] = ()
    """Files and folders that it must not change: their code runs outside its access."""
    state: str = ""
    """The state folder, which it must neither read nor change except its `folder` and `cwd`; empty: none."""
    trust_project: bool = False
    """Whether the program may run code of its working folder: hooks, plugins and servers of its settings."""
    args: tuple[str, ...] = ()
    """Further options for the program, each with its value as one word."""
    system_prompt: str = ""
    """A text for the system prompt."""
    add_dirs: tuple[str, ...] = ()
    """Further folders with the same access as `cwd`."""
    mcp_servers: tuple[McpServer, ...] = ()
    """Further MCP servers, with the tools that it may call."""
    profile: str = ""
    """The named settings of the user; empty: none."""
    cancelled: Callable[[], bool] = lambda: False


class SubscriptionWindow(Struct, frozen=True):
    """A window of a subscription, as a program reports it: the used part from 0 to 1, and the reset."""

    name: str
    used: float | None = None
    resets_at: datetime | None = None


class AgentResult(Struct, frozen=True):
    """The result of an agent. Unknown figures are None, never 0."""

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
    """The stated end of a rate limit (`quota`)."""
    usd_is_total: bool = False
    """Whether `usd` is the total of the session with its earlier runs."""
    tokens_are_total: bool = False
    """The same of `tokens_in`, `tokens_cached` and `tokens_out`."""
    tokens_cached: int | None = None
    """The part of `tokens_in` from the provider's cache."""
    session_full: bool = False
    """Whether the session has no room for another prompt, so that later runs would fail too."""
    windows: tuple[SubscriptionWindow, ...] = ()
    """The windows of the subscription that the program reported."""


class AgentInvocation(Struct, frozen=True):
    """The process of a task: argv, environment, standard input, and files in the run's folder."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


class ProcessEnd(Struct, frozen=True):
    """The end of a task's process: exit code and output."""

    exit_code: int | None
    stdout: str
    stderr: str = ""
    stopped: bool = False
    """Whether it was stopped by timeout, cancellation or shutdown."""
    ended_at: datetime | None = None
    """Its end in the machine's time zone: "resets 11:00" means the next one after it."""


class Probe(Struct, frozen=True):
    """How to inspect an installed agent: the commands for its version and login."""

    version: tuple[str, ...]
    login: tuple[str, ...] = ()
    login_env: tuple[str, ...] = ()
    """Variables that replace a login, such as an API key."""
    report: tuple[str, ...] = ()
    """The command that reports, after a failed `login`, whether the program needs one."""
    headless: tuple[str, ...] = ()
    """The command that lists the options for runs without a terminal."""
    options: tuple[str, ...] = ()
    """The options that rota uses: a version without one of them is unsupported."""


class AgentSession(Struct, frozen=True):
    """A session to resume with its earlier costs: the figures of some programs are totals."""

    id: str
    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    adapter: str = ""
    """The adapter of its program."""
    turns: int = 0
    """Its turns so far, as its program counts them; a run of a program that does not count is one."""
    began_ms: int = 0
    """Its first run, in milliseconds since 1970; 0: it begins with this run."""


class PersonAnswer(Struct, frozen=True):
    """A question of an earlier run and its answer; None: no answer came in time."""

    number: int
    text: str
    answer: str | None


class Brief(Struct, frozen=True):
    """The data of one agent run beyond its job's definition, collected before its start."""

    condition_outputs: tuple[str, ...] = ()
    """The output of the conditions, in their order."""
    session: AgentSession | None = None
    last_summary: str | None = None
    postcondition: str | None = None
    """The failure of the postcondition after the attempt before."""
    item: WorkItem | None = None
    workspace: str | None = None
    """The folder to work in; None: the job's own."""
    branch: str | None = None
    """The branch of its worktree."""
    results: Mapping[str, str] = field(default_factory=dict)
    """The answers of other jobs that its prompt has, by job."""
    continues: Mapping[str, Any] | None = None
    """The workspace of the run whose session it continues after a rate limit; None: it continues none."""
    reply: str | None = None
    """The task of a run that a reply started, in the place of the job's own."""
    answers: tuple[PersonAnswer, ...] = ()
    """The answers of people to questions of earlier runs."""
    answered: bool = False
    """Whether the session goes on with these answers instead of the task."""
    apart: bool = False
    """Whether the session is not that of the job: later runs of the job do not resume it."""


NO_BRIEF = Brief()


PROVIDER = "provider:"
PLENTY = 1_000_000
"""The capacity of a provider's pool: unlimited, except while the provider is held."""


def provider_pool(provider: str) -> str:
    """Return the pool of a provider's runs.

    >>> provider_pool("anthropic")
    'provider:anthropic'
    """
    return f"{PROVIDER}{provider}"


def provider_of(pool: str) -> str | None:
    """Return the provider of a pool, None for any other pool.

    >>> provider_of("provider:anthropic"), provider_of("gpu")
    ('anthropic', None)
    """
    return pool.removeprefix(PROVIDER) if pool.startswith(PROVIDER) else None


class Refusal(Struct, frozen=True):
    """A run that its provider refused, with the message and the stated end of the refusal."""

    began_at: datetime
    at: datetime
    why: str
    resets_at: datetime | None = None
    run_id: str | None = None
    problem: AgentProblem = AgentProblem.QUOTA
    """`quota`, `outage` or `auth`."""


class ProviderHold(Struct, frozen=True):
    """A held provider. `until` None: the hold is over, and only the count of refusals is stored.

    A hold for a missing login (`problem` is `auth`) does not end at `until`: the login is checked then.
    """

    provider: str
    until: datetime | None
    stated: bool
    """Whether the provider stated the end."""
    refusals: int
    """The refusals in a row without a stated end; each doubles the next wait."""
    why: str
    run_id: str | None
    set_at: datetime
    problem: AgentProblem
    since: datetime
    """The first of these refusals in a row."""

    @property
    def login(self) -> bool:
        """Whether the hold ends only with a login."""
        return self.problem is AgentProblem.AUTH
