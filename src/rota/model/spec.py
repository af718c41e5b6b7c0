"""The frozen definition of a job, and the names that jobs, pools and labels may have."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from rota.model.agents import Access, McpServer
from rota.model.budgets import Unit
from rota.model.notifications import Target
from rota.model.params import ParamKind


class Anchor(StrEnum):
    """The start of an interval."""

    COMPLETION = "completion"
    START = "start"
    FIXED = "fixed"


class FirstRun(StrEnum):
    """The first run of a new interval job."""

    NOW = "now"
    AFTER_INTERVAL = "after_interval"


class MisfirePolicy(StrEnum):
    """The policy for missed instants."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OverlapPolicy(StrEnum):
    """The policy for an instant while the job is active."""

    FORBID = "forbid"
    QUEUE = "queue"
    REPLACE = "replace"
    ALLOW = "allow"


class Mode(StrEnum):
    """The activity level that selects an interval by mode."""

    ACTIVE = "active"
    IDLE = "idle"
    DORMANT = "dormant"


class QuietPolicy(StrEnum):
    """The policy for instants in quiet hours."""

    DORMANT = "dormant"
    DEFER = "defer"
    SKIP = "skip"


class WhenFalse(StrEnum):
    """The policy for a run with a false condition."""

    WAIT = "wait"
    SKIP = "skip"


class Kind(StrEnum):
    """The kind of a job's work."""

    COMMAND = "command"
    SHELL = "shell"
    FUNCTION = "function"
    GROUP = "group"
    POLL = "poll"
    AGENT = "agent"


class SessionMode(StrEnum):
    """Whether a run of an agent starts a new session, or resumes the newest of its job."""

    FRESH = "fresh"
    RESUME = "resume"


class OnQuota(StrEnum):
    """Whether a run that its provider refused ends there, or a later one continues its session."""

    FAIL = "fail"
    CONTINUE = "continue"


class Carry(StrEnum):
    """The data of earlier runs in an agent's prompt."""

    LAST_SUMMARY = "last_summary"
    STATE = "state"
    POSTCONDITION = "postcondition"


class Workspace(StrEnum):
    """The working folder of an agent: the project, its own git worktree, or an empty folder."""

    PROJECT = "project"
    WORKTREE = "worktree"
    SCRATCH = "scratch"


class StepFolder(StrEnum):
    """The folder of the step after an agent."""

    WORKSPACE = "workspace"
    PROJECT = "project"


class SourceKind(StrEnum):
    """The kind of a work source."""

    GITHUB = "github"
    DIRECTORY = "directory"
    HTTP = "http"
    RUN = "run"


class KeepAwake(StrEnum):
    """Whether a machine may sleep while runs are in its slots."""

    OFF = "off"
    ON_AC = "on_ac"
    ALWAYS = "always"


class GroupMode(StrEnum):
    """Whether the members of a group run in sequence or in parallel."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class OnFailure(StrEnum):
    """The effect of a failed member on later ones."""

    STOP = "stop"
    CONTINUE = "continue"


class Isolate(StrEnum):
    """Where a Python function runs."""

    THREAD = "thread"
    PROCESS = "process"


class OutputPolicy(StrEnum):
    """The stored part of a run's output."""

    FULL = "full"
    TAIL = "tail"
    NONE = "none"
    DATABASE = "database"
    """As full, and shared with other machines."""

    @property
    def on_disk(self) -> "OutputPolicy":
        """The policy of the files on disk."""
        return OutputPolicy.FULL if self is OutputPolicy.DATABASE else self

    @property
    def shared(self) -> bool:
        """Whether it is copied into the database."""
        return self is OutputPolicy.DATABASE


class OnRestart(StrEnum):
    """The action of a new scheduler on a command that survived the old one."""

    ADOPT = "adopt"
    KILL = "kill"


class Jitter(Struct, frozen=True):
    """A deterministic delay: up to a duration, or a percentage of the gap to the next instant."""

    up_to: timedelta | None = None
    percent: float | None = None


class ByMode(Struct, frozen=True):
    """An interval for each mode; None: never in that mode."""

    active: timedelta | None
    idle: timedelta | None
    dormant: timedelta | None

    def of(self, mode: Mode) -> timedelta | None:
        """Return the interval of a mode."""
        if mode is Mode.ACTIVE:
            return self.active
        return self.idle if mode is Mode.IDLE else self.dormant


class QuietHours(Struct, frozen=True):
    """Windows of the week such as "mon-fri 09:00-19:00" in `timezone`, and their policy."""

    windows: tuple[str, ...]
    timezone: str = "UTC"
    policy: QuietPolicy = QuietPolicy.DORMANT


class Schedule(Struct, frozen=True):
    """The schedule of a job: at most one of `cron`, `interval`, `by_mode`, `at` and `reboot`; none is manual.

    `excluded`: dates in the job's zone, as 2026-12-25, without runs.
    """

    cron: tuple[str, ...] = ()
    interval: timedelta | None = None
    by_mode: ByMode | None = None
    at: datetime | None = None
    reboot: bool = False
    timezone: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None
    anchor: Anchor = Anchor.COMPLETION
    first_run: FirstRun = FirstRun.NOW
    jitter: Jitter | None = None
    run_once: bool = False
    quiet: QuietHours | None = None
    excluded: tuple[str, ...] = ()

    @property
    def manual(self) -> bool:
        """Whether the job has no schedule."""
        return not (self.cron or self.repeats or self.at or self.reboot)

    @property
    def repeats(self) -> bool:
        """Whether it is an interval, fixed or by mode."""
        return self.interval is not None or self.by_mode is not None

    @property
    def follows_runs(self) -> bool:
        """Whether the next instant depends on the last run (completion and start anchors)."""
        return self.repeats and self.anchor is not Anchor.FIXED

    @property
    def fires_on_time(self) -> bool:
        """Whether neither jitter nor quiet hours can move an instant."""
        return self.jitter is None and self.quiet is None

    def every(self, mode: Mode) -> timedelta | None:
        """Return the interval in a mode; None: it has none, or does not fire in that mode."""
        return self.interval if self.by_mode is None else self.by_mode.of(mode)


class Misfire(Struct, frozen=True):
    """The handling of missed instants."""

    policy: MisfirePolicy = MisfirePolicy.SKIP
    grace: timedelta = timedelta(seconds=60)
    limit: int = 10
    max_age: timedelta | None = None


class Overlap(Struct, frozen=True):
    """The limit of unfinished runs of a job."""

    policy: OverlapPolicy = OverlapPolicy.FORBID
    queue_depth: int = 1


class EnvValue(Struct, frozen=True):
    """An environment variable of a job: a text, maybe with placeholders, or the name of a secret."""

    name: str
    value: str | None = None
    secret: str | None = None

    @property
    def written(self) -> dict[str, str] | str | None:
        """The value as a file writes it."""
        return {"secret": self.secret} if self.secret else self.value


class SecretOrigin(Struct, frozen=True):
    """Where the file says that a secret is read at each use: a command, a file, or the keyring of the system."""

    command: tuple[str, ...] = ()
    file: str = ""
    service: str = ""
    """The service of an entry in the keyring; `account` is its user name."""
    account: str = ""
    timeout: timedelta = timedelta(seconds=30)
    cwd: str = ""

    @property
    def kind(self) -> str:
        """The key in the file that names it."""
        return "command" if self.command else "file" if self.file else "keyring"

    @property
    def title(self) -> str:
        """The origin in one line."""
        return " ".join(self.command) or self.file or f"{self.service}/{self.account}"


class Member(Struct, frozen=True):
    """A member of a group: a job, its params, and whether it always runs."""

    job: str
    params: Mapping[str, Any] = field(default_factory=dict)
    always: bool = False

    @property
    def written(self) -> dict[str, Any] | str:
        """The member as a file writes it: its name alone if there is nothing else to say."""
        keys = {"job": self.job, "params": dict(self.params), "always": self.always}
        return {key: value for key, value in keys.items() if value} if self.params or self.always else self.job


class AfterStep(Struct, frozen=True):
    """A command, or a shell text, that runs after the success of an agent."""

    command: tuple[str, ...] = ()
    shell: str = ""
    cwd: StepFolder = StepFolder.WORKSPACE


class Postcondition(Struct, frozen=True):
    """A command, or a shell text, that decides after the work's success whether the run succeeded."""

    command: tuple[str, ...] = ()
    shell: str = ""
    timeout: timedelta = timedelta(minutes=10)


class Limits(Struct, frozen=True):
    """The most that all processes of a run may use: bytes of memory, processors, and processes at the same time."""

    memory: int | None = None
    cpus: float | None = None
    processes: int | None = None


class Sandbox(Struct, frozen=True):
    """The enclosure of the processes of a run: bubblewrap, or a container if `image` names one."""

    image: str = ""
    runtime: str = "docker"
    network: bool = True
    hosts: tuple[str, ...] = ()
    """The only hosts it can reach, by a proxy; empty: all or none, as `network` says."""
    write: tuple[str, ...] = ()
    """Paths outside the working folder that it may change."""
    user: str = ""
    """The user in a container; empty: the user of the scheduler."""
    limits: Limits | None = None
    """The limits of a container that are written beside its image."""


class WorkSource(Struct, frozen=True):
    """The source of a run's work item: a repository, a folder, an address, or a Python class."""

    kind: SourceKind
    place: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the kind: labels, a pattern; of a class its arguments."""
    values: tuple[EnvValue, ...] = ()
    """A token, headers, and secret arguments of a class: read at each start, never stored."""
    timeout: timedelta = timedelta(seconds=30)
    attempts: int = 3
    """The runs that may fail on an item before it is reported as failed instead of released."""

    @property
    def title(self) -> str:
        """The source in messages."""
        return f"{self.kind} {self.place}"

    @property
    def key(self) -> str:
        """The key of the source: one run at a time holds an item of it, over all jobs (labels do not count)."""
        own = self.options if self.kind is SourceKind.RUN else {"api_url": self.options.get("api_url")}
        return f"{self.title} {json.dumps(dict(own), sort_keys=True, default=str)}"


class DeliverWhen(StrEnum):
    """The runs of an agent whose answer is delivered; a failure always is."""

    ALWAYS = "always"
    SAID = "said"
    FAILED = "failed"


class Deliver(Struct, frozen=True):
    """The targets of an agent's whole answer."""

    to: tuple[str, ...]
    when: DeliverWhen = DeliverWhen.SAID


PROMPT_LIMIT = 1_000_000
LOOP_GUARD = 8


class AgentChoice(Struct, frozen=True):
    """An agent, or a model of an agent, that may do the work of a job; `pools`: all pools of a run that it does."""

    agent: str
    adapter: str
    provider: str
    pools: "tuple[Draw, ...]" = ()
    model: str | None = None
    max_turns: int | None = None
    max_concurrent: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    function: str = ""
    called: bool = False
    account: str = ""
    account_dir: str = ""
    require_certified: bool = False
    args: tuple[str, ...] = ()
    system_prompt: str = ""
    profile: str = ""

    @property
    def title(self) -> str:
        """The choice in messages.

        >>> AgentChoice("reviewer", "claude", "anthropic", model="haiku").title
        'reviewer (haiku)'
        """
        return f"{self.agent} ({self.model})" if self.model else self.agent


class AgentWork(Struct, frozen=True):
    """The task of an agent, its adapter and its limits."""

    agent: str
    adapter: str
    provider: str
    prompt: str = ""
    prompt_file: str = ""
    model: str | None = None
    access: Access = Access.READ
    max_turns: int | None = None
    max_usd: float | None = None
    answered_by: tuple[str, ...] = ()
    """The actors that may answer questions of its runs; empty: any with the right to answer."""
    loop_guard: int | None = LOOP_GUARD
    """How often in a row it may make the same tool call, if its adapter shows calls; None: any number."""
    allowed_tools: tuple[str, ...] = ()
    max_concurrent: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    session: SessionMode = SessionMode.FRESH
    session_max_age: timedelta | None = None
    """The age from which the next run starts a new session; None: any."""
    session_max_turns: int | None = None
    """The turns after which the next run starts a new session; None: any number."""
    session_of: str = ""
    """The run whose session the first run of the job continues; empty: none."""
    carry: tuple[Carry, ...] = ()
    workspace: Workspace = Workspace.PROJECT
    after: AfterStep | None = None
    source: WorkSource | None = None
    rota_tools: bool = False
    """Whether its runs get rota's tools over MCP."""
    trust_project: bool = False
    """Whether its program may run code of its working folder: hooks, plugins and servers of its settings."""
    placeholders: bool = True
    """Whether placeholders in its prompt are replaced."""
    on_quota: OnQuota = OnQuota.FAIL
    function: str = ""
    """The Python function of the agent, by its registered name or as module:function; empty: none."""
    called: bool = False
    """Whether it is called inside the scheduler's process."""
    account: str = ""
    """The login of its program, with a provider hold of its own; empty: the user's."""
    account_dir: str = ""
    """The login folder of the account; empty: the default one."""
    require_certified: bool = False
    """Whether its runs wait until the installed version of its program is certified."""
    args: tuple[str, ...] = ()
    """Further options for its program."""
    system_prompt: str = ""
    """A text that is added to its system prompt."""
    add_dirs: tuple[str, ...] = ()
    """Further folders with the access of its own, relative to the project."""
    mcp_servers: tuple[McpServer, ...] = ()
    """Further MCP servers of its runs."""
    profile: str = ""
    """The named settings of its program; empty: none."""
    choices: tuple[AgentChoice, ...] = ()
    """The agents and models that may do the work, the preferred first; empty: this agent alone."""
    deliver: Deliver | None = None
    """The targets of its answers; None: none."""


class Work(Struct, frozen=True):
    """The work of a run and its environment."""

    kind: Kind
    command: tuple[str, ...] = ()
    shell: str = ""
    shell_with: tuple[str, ...] = ("/bin/sh", "-e", "-c")
    function: str = ""
    python: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    """The params that have a value without one being given."""
    param_kinds: tuple[ParamKind, ...] = ()
    """The kinds of all params, in order; empty where the file declares values alone."""
    env: tuple[EnvValue, ...] = ()
    env_pass: tuple[str, ...] = ()
    env_file: str | None = None
    cwd: str = "."
    timeout: timedelta | None = timedelta(minutes=10)
    idle_timeout: timedelta | None = None
    term_grace: timedelta = timedelta(seconds=10)
    isolate: Isolate = Isolate.THREAD
    output: OutputPolicy = OutputPolicy.FULL
    on_restart: OnRestart = OnRestart.ADOPT
    agent: AgentWork | None = None
    postcondition: Postcondition | None = None
    sandbox: Sandbox | None = None
    limits: Limits | None = None
    url: str = ""
    headers: tuple[EnvValue, ...] = ()
    members: tuple[Member, ...] = ()
    mode: GroupMode = GroupMode.SEQUENTIAL
    on_failure: OnFailure = OnFailure.STOP
    project: str | None = None
    """The folder of the job's included project; None: the scheduler's project."""
    imports: tuple[str, ...] = ()
    """The modules of that project; the settings have those of the scheduler's project."""

    @property
    def kind_of_param(self) -> Mapping[str, ParamKind]:
        """The kinds by the name of the param."""
        return {kind.name: kind for kind in self.param_kinds}

    @property
    def param_names(self) -> Sequence[str]:
        """The names of all params, in order."""
        return [kind.name for kind in self.param_kinds] or [*self.params]

    @property
    def in_process(self) -> bool:
        """Whether the work runs inside the scheduler's own process."""
        if self.kind is Kind.POLL or (self.agent is not None and self.agent.called):
            return True
        return self.kind is Kind.FUNCTION and self.isolate is Isolate.THREAD and self.python is None


class Condition(Struct, frozen=True):
    """A gate: a registered name, or a command (exit 0 true, 10 false)."""

    name: str = ""
    command: tuple[str, ...] = ()
    timeout: timedelta = timedelta(seconds=30)
    replaces: bool = False
    """Whether it replaces a built-in condition and is registered in the job's interpreter."""
    percent: float | None = None
    """The percentage of `battery_above`."""

    @property
    def written(self) -> str:
        """The name as it is written in a file.

        >>> Condition("battery_above", percent=30.0).written
        'battery_above(30%)'
        """
        return self.name if self.percent is None else f"{self.name}({self.percent:g}%)"

    @property
    def title(self) -> str:
        """The condition in messages."""
        return self.written or " ".join(self.command)


class Gates(Struct, frozen=True):
    """The gates of a due run."""

    conditions: tuple[Condition, ...] = ()
    when_false: WhenFalse = WhenFalse.SKIP
    recheck: timedelta = timedelta(seconds=60)
    expires_after: timedelta | None = None
    needs_poll: bool = False


class Draw(Struct, frozen=True):
    """The room that a run takes in a pool."""

    pool: str
    cost: int = 1


class Spend(Struct, frozen=True):
    """An account of a run, and the estimated cost in the account's unit.

    `estimate` None: the cost of its last runs, else the account's estimate. `unit` is that of the account when the
    estimate was written; None: any.
    """

    account: str
    estimate: int | None = None
    unit: Unit | None = None
    most: int | None = None
    """The limit of the job's agent for one run, in millionths of a dollar; None: no limit."""


class Retry(Struct, frozen=True):
    """The retries of a failed run. `max_attempts` includes the first attempt."""

    max_attempts: int = 3
    backoff: timedelta = timedelta(seconds=10)
    factor: float = 2.0
    max: timedelta = timedelta(minutes=10)
    jitter: Jitter | None = None


class RepeatedFailure(Struct, frozen=True):
    """The backoff of a job that fails repeatedly."""

    after: int = 5
    backoff_max: timedelta = timedelta(days=1)


class Retention(Struct, frozen=True):
    """The retention of rows and output; None is for ever."""

    runs: timedelta | None = timedelta(days=365)
    skipped: timedelta | None = timedelta(days=30)
    skipped_count: int | None = 10_000
    output: timedelta | None = timedelta(days=30)


class Pace(Struct, frozen=True):
    """The bounds within which a run may choose how long its job waits for the next one."""

    min: timedelta
    max: timedelta


class JobSpec(Struct, frozen=True):
    """A job's whole definition."""

    name: str
    work: Work
    schedule: Schedule = Schedule()
    misfire: Misfire = Misfire()
    overlap: Overlap = Overlap()
    gates: Gates = Gates()
    retry: Retry = Retry()
    on_repeated_failure: RepeatedFailure | None = None
    pools: tuple[Draw, ...] = ()
    budgets: tuple[Spend, ...] = ()
    retention: Retention = Retention()
    labels: tuple[str, ...] = ()
    priority: int = 0
    enabled: bool = True
    description: str = ""
    notify: tuple[str, ...] = ()
    """The notification targets by name."""
    notify_own: tuple[Target, ...] = ()
    """Targets that the job declares in place."""
    finish_by: str = ""
    """The time of the day, as 06:00, by which a scheduled run must have finished; empty: any."""
    ping: Target | None = None
    """The health check that hears of each start and end."""
    wake: bool = False
    """Whether the machine is woken for its instants."""
    pace: Pace | None = None
    """The bounds of the waits that its runs choose; None: the interval alone counts."""

    @property
    def notifies(self) -> bool:
        """Whether the job has notification targets."""
        return bool(self.notify or self.notify_own or self.deliver)

    @property
    def deliver(self) -> Deliver | None:
        """The targets of an agent's answers."""
        return None if self.work.agent is None else self.work.agent.deliver

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of all declared targets that the job uses."""
        return (*self.notify, *(self.deliver.to if self.deliver else ()))

    @property
    def own_targets(self) -> tuple[Target, ...]:
        """The receivers that the job declares itself."""
        return self.notify_own if self.ping is None else (*self.notify_own, self.ping)

    @property
    def reports(self) -> bool:
        """Whether the ends of its runs are sent: to notification targets, or as a ping."""
        return self.notifies or self.ping is not None


class Names(Struct, frozen=True):
    """The registered names: `missing` has a message for each unknown name and each module that fails."""

    missing: Mapping[str, str] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()
    """The registered conditions; they replace built-in ones of the same name."""
    needing_poll: frozenset[str] = frozenset()
    """The conditions that read the shared poll."""
