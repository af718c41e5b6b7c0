"""Records of jobs, runs, groups, executions, worktrees and claims on work items."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, overload

from msgspec import Struct, field

from rota.model.agents import AgentSession, SubscriptionWindow, WorkItem, WorkReport, WorkRequest
from rota.model.budgets import Usage
from rota.model.proposals import Provenance
from rota.model.spec import GroupMode, JobSpec, Mode, OnFailure, WorkSource
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor

SUMMARY_LIMIT = 1000
RESULT_LIMIT = 1_000_000
"""The bytes of a stored result; the longest summary fits in many times over."""
ERROR_LIMIT = 2000
PARAMS_LIMIT = 64 * 1024
STATE_LIMIT = 16 * 1024
POSTCONDITION = "postcondition"
"""The key of a run's decisions for the end of its postcondition."""
SCHEDULER_STATE_LIMIT = 64 * 1024
ARTIFACTS_LIMIT = 16 * 1024


class Job(Struct, frozen=True):
    """A stored job: its current definition and its cursor."""

    id: str
    name: str
    source: str
    version: int
    spec: JobSpec
    created_at: datetime
    updated_at: datetime
    enabled: bool
    retired_at: datetime | None
    used_up_at: datetime | None
    next_for: datetime | None
    next_at: datetime | None
    anchored_at: datetime | None
    fire_number: int
    run_number: int
    ledger_from: datetime
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    pause_reason: str | None = None
    held_for: datetime | None = None
    failures: int = 0
    """The failed chains in a row."""
    backing_off_until: datetime | None = None
    mode: Mode | None = None
    """The mode of the planned cursor of a job with intervals by mode; None for other jobs."""
    suggested: timedelta | None = None
    """The interval that the polled server suggests, until the next poll."""
    booted: str | None = None
    """The boot of the machine in which a job at boot has fired or was created."""
    made: Provenance | None = None
    """The author and limits of a job from the tools; None: a file or Python code declares it."""
    provisional_at: datetime | None = None
    """The start of its wait for approval."""
    approved: str | None = None
    """The digest of the definition that a person approved."""

    @property
    def interval(self) -> timedelta | None:
        """The current interval; None: it has none, or does not fire in this mode."""
        planned = self.spec.schedule.every(self.mode or Mode.ACTIVE)
        return planned if self.suggested is None or planned is None else self.suggested

    @property
    def schedules(self) -> bool:
        """Whether the job has due instants: enabled, not retired, not used up, not provisional."""
        return self.enabled and self.retired_at is None and self.used_up_at is None and self.provisional_at is None

    def expired(self, now: datetime) -> bool:
        """Return whether the lifetime of the job is over."""
        return self.made is not None and self.made.expires_at is not None and self.made.expires_at <= now


class NextLook(Struct, frozen=True):
    """The next run of a job as a run of it asked for it; `next_for` None: the end of the chain plans it."""

    run: str
    author: str
    why: str
    after: timedelta
    asked_at: datetime
    next_for: datetime | None = None


class Run(Struct, frozen=True):
    """One intended execution, from QUEUED to a final status."""

    id: str
    job_id: str
    job: str
    number: int
    version: int
    trigger: Trigger
    status: Status
    reason: Reason | None
    waiting_for: WaitingFor | None
    not_before: datetime | None
    scheduled_for: datetime | None
    covers_to: datetime | None
    count: int | None
    lane_id: int
    priority: int
    rank: int
    position: int
    params: Mapping[str, Any]
    attempt: int
    retry_of: str | None
    chain_id: str | None
    group_id: str | None
    place: int | None
    always: bool
    created_at: datetime
    first_dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    cancel_requested_at: datetime | None
    worker_id: str | None
    slot: int | None
    epoch: int | None
    losses: int
    forced: bool
    exit_code: int | None
    error: str | None
    result_summary: str | None
    predecessor_id: str | None = None
    decisions: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    """The usage of its execution, as `usage_json` writes it."""
    denied_tools: tuple[str, ...] = ()
    session_id: str | None = None
    seq: int = 0
    """Its key in the database: the order in which runs were stored."""

    @property
    def handle(self) -> str:
        """The name of the run for people: `backup:112`."""
        return f"{self.job}:{self.number}"

    @property
    def checked(self) -> bool | None:
        """Whether the postcondition passed; None: it did not run."""
        stored = self.decisions.get(POSTCONDITION)
        return None if stored is None else bool(stored.get("passed"))

    @property
    def nominal(self) -> datetime:
        """The instant of placeholders and ROTA_DATE."""
        return self.scheduled_for or self.created_at


class Group(Struct, frozen=True):
    """A group of runs: of a declared group's run, or created at run time without one."""

    id: str
    name: str
    number: int
    run_id: str | None
    mode: GroupMode
    on_failure: OnFailure
    status: GroupStatus
    size: int
    retry_of: str | None
    created_at: datetime
    cancel_requested_at: datetime | None
    finished_at: datetime | None

    @property
    def handle(self) -> str:
        """The name of the group for people: `nightly:88`."""
        return f"{self.name}:{self.number}"


class Abandoned(Struct, frozen=True):
    """A function that still runs after its run or direct call has ended: its thread cannot be killed."""

    run_id: str
    job: str | None
    number: int | None
    since: datetime | None
    slot: int

    @property
    def handle(self) -> str:
        """Its name for people."""
        return "a direct call" if self.job is None else f"{self.job}:{self.number}"


class Execution(Struct, frozen=True):
    """The audit record of a start: of a run, or of a direct call, which has a caller and no run."""

    id: str
    run_id: str | None
    job_id: str | None
    version: int | None
    lane_id: int | None
    params: Mapping[str, Any]
    caller: str | None
    worker_id: str
    slot: int
    epoch: int
    boot_id: str
    pid: int
    pid_start: int
    started_at: datetime
    finished_at: datetime | None
    status: Status | None
    exit_code: int | None
    error: str | None
    artifacts: Mapping[str, Any]


class PostconditionResult(Struct, frozen=True):
    """The end of a postcondition; `output` has its last lines if it failed."""

    passed: bool
    exit_code: int | None = None
    output: str = ""


class Outcome(Struct, frozen=True):
    """The end of an execution, or of a run that never started, as runners and gates report it."""

    status: Status
    reason: Reason | None = None
    exit_code: int | None = None
    error: str | None = None
    summary: str | None = None
    result: str | None = None
    """The whole answer, if the summary does not have it all."""
    state: Mapping[str, Any] | None = None
    scheduler_state: Mapping[str, Any] | None = None
    """The changed keys of the shared document; None deletes a key."""
    output_bytes: int | None = None
    files: tuple[str, ...] = ()
    usage: Usage | None = None
    finished_at: datetime | None = None
    """The observed end; None: the time of recording."""
    session_id: str | None = None
    """The session of an agent, to resume."""
    session: AgentSession | None = None
    """The same with its totals, if the next run of the job resumes it."""
    session_lost: str | None = None
    """The session that could not be resumed: the next run starts a new one."""
    denied_tools: tuple[str, ...] = ()
    """The tools that an agent requested and did not get."""
    provider: str | None = None
    """The provider of an agent, held after a rate limit."""
    agent: str | None = None
    """The agent that did the work, of a list."""
    resets_at: datetime | None = None
    """The stated end of a rate limit."""
    windows: tuple[SubscriptionWindow, ...] = ()
    """The windows of its subscription that an agent reported."""
    poll: Mapping[str, Any] | None = None
    """The data of a poll."""
    suggested: float | None = None
    """The poll interval in seconds that the server suggests."""
    postcondition: PostconditionResult | None = None
    """None: it did not run."""


class ProcessIdentity(Struct, frozen=True):
    """A process, distinct from later ones with the same pid."""

    boot_id: str
    pid: int
    start: int


@overload
def cut(text: str, limit: int) -> str: ...
@overload
def cut(text: None, limit: int) -> None: ...
def cut(text: str | None, limit: int) -> str | None:
    """Return `text` cut to `limit` characters, the cut marked.

    >>> cut("abcdef", 5)
    'abcd…'
    """
    if text is None or len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def whole_result(text: str | None) -> str | None:
    """Return the result to store beside a summary, None if the summary has the whole text.

    >>> whole_result("short") is None, len(whole_result("long " * 500) or "")
    (True, 2500)
    """
    return None if text is None or len(text) <= SUMMARY_LIMIT else bounded_result(text)


def bounded_result(text: str) -> str:
    """Return a text cut to 1 MB, the cut marked, without characters that a database refuses."""
    data = text.replace("\0", "").encode("utf-8", "replace")
    if len(data) <= RESULT_LIMIT:
        return data.decode()
    return data[: RESULT_LIMIT - len("…".encode())].decode(errors="ignore") + "…"


class Worktree(Struct, frozen=True):
    """A git worktree: its run, place and base commit. `kept_why`: the reason to keep it after the run."""

    run_id: str
    handle: str
    repository: str
    path: str
    branch: str
    base: str
    made_at: datetime
    kept_at: datetime | None = None
    kept_why: str | None = None


class ClaimState(StrEnum):
    """The state of a claim: with its run (the first two), pending report or release, or finished."""

    ASKING = "asking"
    HELD = "held"
    REPORTING = "reporting"
    RELEASING = "releasing"
    REPORTED = "reported"
    RELEASED = "released"
    GIVEN_UP = "given_up"


class Claim(Struct, frozen=True):
    """A request of a run to its source: `item` is the claimed item, `not_before` the time of the next report."""

    claim: str
    run_id: str
    handle: str
    source: WorkSource
    asked_at: datetime
    item: WorkItem | None
    claimed_at: datetime | None
    state: ClaimState
    ended_at: datetime | None
    report: WorkReport | None
    attempts: int
    not_before: datetime | None
    told_at: datetime | None
    error: str | None

    @property
    def request(self) -> WorkRequest:
        """The request for the source."""
        return WorkRequest(self.claim, self.handle.rpartition(":")[0], self.handle, self.asked_at)
