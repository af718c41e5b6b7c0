"""The frozen definition of a job, and the names that jobs, pools and labels may have."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from rota.model.agents import Access
from rota.model.budgets import Unit
from rota.model.notifications import Target


class Anchor(StrEnum):
    """What an interval counts from (R-06)."""

    COMPLETION = "completion"
    START = "start"
    FIXED = "fixed"


class FirstRun(StrEnum):
    """When an interval job runs for the first time after it was created (R-06)."""

    NOW = "now"
    AFTER_INTERVAL = "after_interval"


class MisfirePolicy(StrEnum):
    """What happens to instants noticed too late (R-10)."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OverlapPolicy(StrEnum):
    """What happens to an instant while the job is active (R-11)."""

    FORBID = "forbid"
    QUEUE = "queue"
    REPLACE = "replace"
    ALLOW = "allow"


class Mode(StrEnum):
    """How much is going on: what intervals by mode go by (R-18)."""

    ACTIVE = "active"
    IDLE = "idle"
    DORMANT = "dormant"


class QuietPolicy(StrEnum):
    """What quiet hours do to the instants inside them (R-17)."""

    DORMANT = "dormant"
    DEFER = "defer"
    SKIP = "skip"


class WhenFalse(StrEnum):
    """What a false condition does to a run (R-09)."""

    WAIT = "wait"
    SKIP = "skip"


class Kind(StrEnum):
    """How a job does its work."""

    COMMAND = "command"
    SHELL = "shell"
    FUNCTION = "function"
    GROUP = "group"
    POLL = "poll"
    AGENT = "agent"


class SessionMode(StrEnum):
    """Whether a run of an agent begins a session of its own, or goes on with the newest of its job."""

    FRESH = "fresh"
    RESUME = "resume"


class Carry(StrEnum):
    """What a run of an agent is told of the runs before it."""

    LAST_SUMMARY = "last_summary"
    STATE = "state"


class Workspace(StrEnum):
    """Where an agent works: in the project itself, in a git worktree of its own, or in an empty folder."""

    PROJECT = "project"
    WORKTREE = "worktree"
    SCRATCH = "scratch"


class StepFolder(StrEnum):
    """Where the step after an agent runs."""

    WORKSPACE = "workspace"
    PROJECT = "project"


class SourceKind(StrEnum):
    """What kind of work source gives a run its item."""

    GITHUB = "github"
    DIRECTORY = "directory"
    HTTP = "http"
    RUN = "run"


class GroupMode(StrEnum):
    """Whether the members of a group run one after another or side by side (R-15)."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class OnFailure(StrEnum):
    """What a failed member does to those after it (DEC-012, R-15)."""

    STOP = "stop"
    CONTINUE = "continue"


class Isolate(StrEnum):
    """Where a Python function runs."""

    THREAD = "thread"
    PROCESS = "process"


class OutputPolicy(StrEnum):
    """How much of a run's output is kept (R-21)."""

    FULL = "full"
    TAIL = "tail"
    NONE = "none"
    DATABASE = "database"
    """As full, and shared with other machines."""

    @property
    def on_disk(self) -> "OutputPolicy":
        """How much the files of a run hold."""
        return OutputPolicy.FULL if self is OutputPolicy.DATABASE else self

    @property
    def shared(self) -> bool:
        """Whether it is copied into the database."""
        return self is OutputPolicy.DATABASE


class OnRestart(StrEnum):
    """What a new scheduler does with a command that survived the old one (R-23)."""

    ADOPT = "adopt"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Jitter:
    """A delay chosen by hash: up to a duration, or up to a percentage of the gap to the next instant."""

    up_to: timedelta | None = None
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class ByMode:
    """An interval for each mode; None: never in that mode (R-18)."""

    active: timedelta | None
    idle: timedelta | None
    dormant: timedelta | None

    def of(self, mode: Mode) -> timedelta | None:
        """Return the interval of a mode."""
        if mode is Mode.ACTIVE:
            return self.active
        return self.idle if mode is Mode.IDLE else self.dormant


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Windows of the week such as "mon-fri 09:00-19:00", read in `timezone`, and what they do (R-17)."""

    windows: tuple[str, ...]
    timezone: str = "UTC"
    policy: QuietPolicy = QuietPolicy.DORMANT


@dataclass(frozen=True, slots=True)
class Schedule:
    """The when of a job: exactly one of `cron`, `interval`, `by_mode`, `at`, `reboot`, or none of them (manual).

    `excluded`: dates in the job's zone, as 2026-12-25, whose instants do not run.
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
        """Whether the job has no instants of its own."""
        return not (self.cron or self.repeats or self.at or self.reboot)

    @property
    def repeats(self) -> bool:
        """Whether it is an interval, of one length or by mode."""
        return self.interval is not None or self.by_mode is not None

    @property
    def follows_runs(self) -> bool:
        """Whether the next instant depends on the last run (completion and start anchors)."""
        return (self.interval is not None or self.by_mode is not None) and self.anchor is not Anchor.FIXED

    @property
    def fires_on_time(self) -> bool:
        """Whether each instant fires at its very moment: neither jitter nor quiet hours may move it."""
        return self.jitter is None and self.quiet is None

    def every(self, mode: Mode) -> timedelta | None:
        """Return the interval in a mode; None: there is none, or never in that mode."""
        return self.interval if self.by_mode is None else self.by_mode.of(mode)


@dataclass(frozen=True, slots=True)
class Misfire:
    """How late is late, and what then (R-10)."""

    policy: MisfirePolicy = MisfirePolicy.SKIP
    grace: timedelta = timedelta(seconds=60)
    limit: int = 10
    max_age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many unfinished runs a job may have (R-11)."""

    policy: OverlapPolicy = OverlapPolicy.FORBID
    queue_depth: int = 1


@dataclass(frozen=True, slots=True)
class EnvValue:
    """One environment variable of a job: a text (may hold placeholders) or the name of a secret."""

    name: str
    value: str | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One place in a group: a job, params of its own, and whether it runs whatever became of the others."""

    job: str
    params: Mapping[str, Any] = field(default_factory=dict)
    always: bool = False


@dataclass(frozen=True, slots=True)
class AfterStep:
    """A command, or a text for the shell, that runs once the agent has succeeded."""

    command: tuple[str, ...] = ()
    shell: str = ""
    cwd: StepFolder = StepFolder.WORKSPACE


@dataclass(frozen=True, slots=True)
class WorkSource:
    """Where a run fetches the item that it works on (003): a repository, a folder, an address, or a Python class."""

    kind: SourceKind
    place: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the kind is told: labels, a pattern; of a class its arguments."""
    values: tuple[EnvValue, ...] = ()
    """A token, headers, and those arguments of a class that are secrets: read at each start, never stored."""
    timeout: timedelta = timedelta(seconds=30)
    attempts: int = 3
    """How many runs may fail on one item before it is reported as failed instead of given back."""

    @property
    def title(self) -> str:
        """The source as messages name it."""
        return f"{self.kind} {self.place}"

    @property
    def key(self) -> str:
        """What tells sources apart: an item of one is held by one run, whichever job asked (labels do not count)."""
        own = self.options if self.kind is SourceKind.RUN else {"api_url": self.options.get("api_url")}
        return f"{self.title} {json.dumps(dict(own), sort_keys=True, default=str)}"


PROMPT_LIMIT = 1_000_000
"""The most characters of a prompt."""


@dataclass(frozen=True, slots=True)
class AgentWork:
    """What an agent is asked to do, by which adapter and within which limits (section 8, R-30)."""

    agent: str
    adapter: str
    provider: str
    prompt: str = ""
    prompt_file: str = ""
    model: str | None = None
    access: Access = Access.READ
    max_turns: int | None = None
    max_usd: float | None = None
    allowed_tools: tuple[str, ...] = ()
    max_concurrent: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    session: SessionMode = SessionMode.FRESH
    carry: tuple[Carry, ...] = ()
    workspace: Workspace = Workspace.PROJECT
    after: AfterStep | None = None
    source: WorkSource | None = None
    rota_tools: bool = False
    """Whether its runs get rota's own tools over MCP."""
    trust_project: bool = False
    """Whether its program may run code of the folder that it works in: hooks, plugins and servers of its settings."""
    placeholders: bool = True
    """Whether placeholders in its prompt are filled; else the prompt is passed as it is written."""
    function: str = ""
    """The Python function that is the agent, by its registered name or as module:function; empty: none is."""
    called: bool = False
    """Whether it is called inside the scheduler's process instead of being started as one."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run does, and in which surroundings."""

    kind: Kind
    command: tuple[str, ...] = ()
    shell: str = ""
    shell_with: tuple[str, ...] = ("/bin/sh", "-e", "-c")
    function: str = ""
    python: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    env: tuple[EnvValue, ...] = ()
    env_pass: tuple[str, ...] = ()
    env_file: str | None = None
    cwd: str = "."
    timeout: timedelta | None = timedelta(minutes=10)
    term_grace: timedelta = timedelta(seconds=10)
    isolate: Isolate = Isolate.THREAD
    output: OutputPolicy = OutputPolicy.FULL
    on_restart: OnRestart = OnRestart.ADOPT
    agent: AgentWork | None = None
    url: str = ""
    headers: tuple[EnvValue, ...] = ()
    members: tuple[Member, ...] = ()
    mode: GroupMode = GroupMode.SEQUENTIAL
    on_failure: OnFailure = OnFailure.STOP
    project: str | None = None
    """The folder of the included project that declares the job; None: that of the scheduler's own."""
    imports: tuple[str, ...] = ()
    """The modules of that project; those of the scheduler's own are in its settings."""

    @property
    def in_process(self) -> bool:
        """Whether the work runs inside the scheduler's own process."""
        if self.kind is Kind.POLL or (self.agent is not None and self.agent.called):
            return True
        return self.kind is Kind.FUNCTION and self.isolate is Isolate.THREAD and self.python is None


@dataclass(frozen=True, slots=True)
class Condition:
    """A gate: a registered name, or a command (exit 0 true, 10 false)."""

    name: str = ""
    command: tuple[str, ...] = ()
    timeout: timedelta = timedelta(seconds=30)
    replaces: bool = False
    """Whether it has the name of a built-in one, and is registered in the job's own interpreter (R-09)."""

    @property
    def title(self) -> str:
        """The condition as messages name it."""
        return self.name or " ".join(self.command)


@dataclass(frozen=True, slots=True)
class Gates:
    """Whether a due run may go on (R-09)."""

    conditions: tuple[Condition, ...] = ()
    when_false: WhenFalse = WhenFalse.SKIP
    recheck: timedelta = timedelta(seconds=60)
    expires_after: timedelta | None = None
    needs_poll: bool = False


@dataclass(frozen=True, slots=True)
class Draw:
    """How much of a pool a run takes while it runs (R-03, R-04)."""

    pool: str
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Spend:
    """An account that a run is charged to, and what it is expected to cost, in the account's own unit (R-19).

    `estimate` None: what its last runs cost, else what the account says. `unit` is that of the account when the
    estimate was written; None: whatever the account counts.
    """

    account: str
    estimate: int | None = None
    unit: Unit | None = None
    most: int | None = None
    """What the job's agent may spend on one run at most, in millionths of a dollar; None: it has no such limit."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed run is tried again, and after how long (DEC-007). `max_attempts` counts the first one."""

    max_attempts: int = 3
    backoff: timedelta = timedelta(seconds=10)
    factor: float = 2.0
    max: timedelta = timedelta(minutes=10)
    jitter: Jitter | None = None


@dataclass(frozen=True, slots=True)
class RepeatedFailure:
    """When a job that fails again and again is held back, and for how long at most."""

    after: int = 5
    backoff_max: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows and output are kept; None is for ever."""

    runs: timedelta | None = timedelta(days=365)
    skipped: timedelta | None = timedelta(days=30)
    skipped_count: int | None = 10_000
    output: timedelta | None = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class JobSpec:
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
    """The targets that are told of the job's runs, by name (DEC-009)."""
    notify_own: tuple[Target, ...] = ()
    """Targets that are written in the job itself."""
    finish_by: str = ""
    """The time of the day, as 06:00, by which a scheduled run must have finished; empty: any."""

    @property
    def notifies(self) -> bool:
        """Whether somebody is told of the job's runs."""
        return bool(self.notify or self.notify_own)


@dataclass(frozen=True, slots=True)
class Names:
    """What was found: `missing` has a message for each name nobody knows and each module that fails."""

    missing: Mapping[str, str] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()
    """Those that are registered; such a one replaces a built-in one of its name (R-09)."""
    needing_poll: frozenset[str] = frozenset()
    """Those of them that look at what the shared poll brought (R-16)."""
