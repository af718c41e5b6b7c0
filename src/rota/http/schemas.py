"""What the API answers and takes, for OpenAPI: the shapes of `--json`. Answers may gain fields, wishes may not."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rota.http.routing import Wish

Instant = str
"""ISO 8601 in UTC."""


class Shape(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(extra="allow")


class Place(Shape):
    """Where in a body something is wrong."""

    message: str
    code: str
    path: str
    hint: str


class Problem(Shape):
    """An error (RFC 9457), with the code, text and hint that the command line tells."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    problems: list[Place]


class Run(Shape):
    """A run, as `rota history --json` tells it."""

    id: str
    run: str
    job: str
    status: Literal["QUEUED", "RUNNING", "COMPLETED", "FAILED", "SKIPPED", "CANCELLED"]
    reason: str | None
    waiting_for: str | None
    trigger: str
    scheduled_for: Instant | None
    covers_to: Instant | None
    count: int | None
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    attempt: int
    retry_of: str | None
    exit_code: int | None
    error: str | None
    result_summary: str | None
    usage: dict[str, Any] | None
    denied_tools: list[str]
    session_id: str | None


class WholeRun(Run):
    """A run with everything that is stored about it, as `rota show RUN --json`."""

    params: dict[str, Any]
    forced: bool
    pools: dict[str, int]
    version: int
    max_attempts: int
    chain: list[str]
    not_before: Instant | None
    held: str | None
    held_until: Instant | None
    work: Any
    workspace: Any
    worker: str | None
    expires_at: Instant | None
    cancel_requested_at: Instant | None
    decisions: dict[str, Any]
    deliveries: list[dict[str, Any]]
    execution: dict[str, Any] | None
    group: dict[str, Any] | None


class RunPage(Shape):
    """A page of runs, newest first; `next` is the cursor of the following page."""

    items: list[Run]
    next: str | None


class Pause(Shape):
    """A pause."""

    since: Instant
    until: Instant | None
    reason: str


class Fire(Shape):
    """A coming fire."""

    at: Instant
    scheduled_for: Instant
    deferred: bool


class Job(Shape):
    """A job, as `rota list --json` tells it."""

    name: str
    state: str
    enabled: bool
    paused: Pause | None
    source: str
    version: int
    kind: str
    description: str
    labels: list[str]
    pools: dict[str, int]
    schedule: str
    timezone: str
    quiet_hours: dict[str, Any] | None
    excluded: list[str] = Field(alias="except")
    made: dict[str, Any] | None
    provisional_since: Instant | None
    next: list[Fire]
    unfinished: list[Run]
    last: list[Run]
    created_at: Instant
    updated_at: Instant


class WholeJob(Job):
    """A job with its definition, as `rota show JOB --json`."""

    spec: dict[str, Any]
    data: Any


class MadeJob(WholeJob):
    """A job that was made or replaced, and what is worth telling about it, as `rota check` does."""

    notes: list[str]


class JobPage(Shape):
    """Jobs by name."""

    items: list[Job]
    next: str | None


class Preview(Shape):
    """The coming fires of a job."""

    job: str
    timezone: str
    fires: list[Fire]


class Line(Shape):
    """One line of an explanation."""

    label: str
    text: str


class Explanation(Shape):
    """Why a job or run did, did not, or will run, as `rota explain --json`."""

    name: str
    job: Job
    job_lines: list[Line]
    run: Run | None
    run_lines: list[Line]
    decisions: dict[str, Any]


class Told(Shape):
    """A change, in the shape that the command prints with --json."""


class Page(Shape):
    """A list; `next` is the cursor of the following page."""

    items: list[dict[str, Any]]
    next: str | None


class CancelledRun(Run):
    """A run that was cancelled, or is being stopped."""

    final: bool


class RetriedRun(Shape):
    """A run that was made of a finished one."""

    retried: str


class QueueView(Shape):
    """The head of the queue, as `rota queue --json`."""

    state: str
    paused: Pause | None
    slots: int | None
    slots_taken: int | None
    ready_count: int
    waiting_count: int
    direct: list[dict[str, Any]]
    ready: list[dict[str, Any]]
    waiting: list[dict[str, Any]]
    pools: list[dict[str, Any]]


class Group(Shape):
    """A group, as `rota groups show --json`."""

    id: str
    group: str
    name: str
    status: Literal["RUNNING", "COMPLETED", "PARTIAL", "CANCELLED"]
    mode: str
    on_failure: str
    run_id: str | None
    retry_of: str | None
    created_at: Instant
    cancel_requested_at: Instant | None
    finished_at: Instant | None
    counts: dict[str, int]
    members: list[dict[str, Any]]


class GroupEntry(Shape):
    """A group's name and its newest instance."""

    name: str
    declared: bool
    newest: Group | None


class GroupPage(Shape):
    """Groups by name."""

    items: list[GroupEntry]
    next: str | None


class Account(Shape):
    """An account of budgets in its window, as `rota budgets --json`; money in millionths of a dollar."""

    name: str
    unit: str
    limit: int
    per: str
    used: int
    left: int
    settled: int
    reserved: int
    since: Instant
    until: Instant


class AccountPage(Shape):
    """Accounts by name."""

    items: list[Account]
    next: str | None


class Worker(Shape):
    """A worker that claims runs, as `rota workers --json`; or, `remote`, a scheduler elsewhere that reads this one."""

    id: str
    name: str
    remote: bool
    registered: bool
    state: Literal["alive", "draining", "gone"] | None = None
    host: str | None = None
    folder: str | None = None
    labels: dict[str, str] | None = None
    only_pools: list[str] | None = None
    except_pools: list[str] | None = None
    slots: int | None = None
    slots_taken: int | None = None


class WorkerPage(Shape):
    """Workers by name."""

    items: list[Worker]
    next: str | None


class DirectCall(Shape):
    """A direct call, as `rota direct --json`."""

    id: str
    job: str | None
    direct: bool
    status: str
    reason: str | None
    ahead: int
    params: dict[str, Any]
    asked_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    exit_code: int | None
    error: str | None
    result_summary: str | None


class DirectCalls(Shape):
    """The direct calls that wait and run."""

    waiting: list[DirectCall]
    running: list[DirectCall]


class System(Shape):
    """How the project is, as `rota status --json`."""

    state: Literal["running", "elsewhere", "ticking", "stalled", "dead"]
    pid: int | None
    slots: int | None
    slots_taken: int | None
    jobs: int
    attention: list[dict[str, Any]]
    running: list[Run]
    queued: list[Run]
    next: list[dict[str, Any]]


class Summary(Shape):
    """The summary of document 001, as `rota status --poll --json`."""

    queue_counts: dict[str, int]
    claimable: bool
    provisional_tasks: list[dict[str, Any]]
    orchestrator_registered: bool | None
    workers: list[dict[str, Any]]
    state: str
    mode: str
    next_due_at: Instant | None
    suggested_poll_seconds: int


class Stopped(Shape):
    """What a stop did."""

    mode: str
    running: int
    direct: int


class Usage(Shape):
    """What runs used, as `rota usage --json`."""

    by: str
    since: Instant
    until: Instant
    rows: list[dict[str, Any]]
    total: dict[str, Any]


class Entry(Shape):
    """A line of the audit: who did what."""

    number: int
    at: Instant
    actor: str
    face: str
    action: str
    target: str
    detail: dict[str, Any]


class EntryPage(Shape):
    """Lines of the audit, newest first."""

    items: list[Entry]
    next: str | None


class Health(Shape):
    """Whether the scheduler's loop answers."""

    status: Literal["ok", "stalled", "database_gone"]


# What requests bring


class DryRun(Wish):
    """A change that may be tried without being made."""

    dry_run: bool = Field(default=False, description="Tell what would happen; change nothing.")


class TriggerWish(DryRun):
    """How a job is to be started."""

    params: dict[str, Any] = Field(default_factory=dict, description="Params of this run over those of the job.")
    force: bool = Field(default=False, description="Pass overlap and conditions; it is recorded.")


class BulkWish(DryRun):
    """Many runs of a job at once, all of them or none."""

    params: list[dict[str, Any]] = Field(min_length=1, max_length=10_000, description="The params of each run.")
    force: bool = Field(default=False, description="Pass overlap; it is recorded.")


class RetryWish(DryRun):
    """How a finished run is to be run again."""

    again: bool = Field(default=False, description="Also a run that COMPLETED.")
    force: bool = Field(default=False, description="Pass overlap; it is recorded.")
    params: dict[str, Any] = Field(default_factory=dict, description="Params over those that it had.")


class EditWish(DryRun):
    """What is to change about a queued run."""

    params: dict[str, Any] | None = Field(None, description="Params over those that it has.")
    priority: int | None = Field(None, ge=-1000, le=1000, description="Higher goes first in the queue.")


class MoveWish(DryRun):
    """Where a queued run is to stand: exactly one of these."""

    first: bool = Field(default=False, description="Before all others of its priority.")
    last: bool = Field(default=False, description="Behind all others of its priority.")
    before: str | None = Field(None, max_length=300, description="Just before this run.")
    to: int | None = Field(None, ge=1, le=1000, description="To this place, as the queue counts it.")


class PauseWish(DryRun):
    """How long a pause lasts: until it is ended, for a time, or until an instant."""

    until: str | None = Field(None, max_length=64, description="ISO 8601.")
    seconds: int | None = Field(None, ge=1, le=315_360_000, description="Or so many seconds from now.")
    reason: str = Field("", max_length=1000, description="Why, shown wherever the pause is.")


class ResumeWish(DryRun):
    """What becomes of the instants of a pause."""

    catch_up: Literal["none", "once"] = "none"


class BackfillWish(DryRun):
    """The past range to fill: [since, until)."""

    since: str = Field(max_length=64, description="ISO 8601.")
    until: str = Field(max_length=64, description="ISO 8601.")
    parallel: bool = False
    only_missed: bool = False


class SweepWish(DryRun):
    """Which unfinished runs are to be cancelled; at least one of these."""

    jobs: list[str] = Field(default_factory=list, max_length=1000)
    labels: list[str] = Field(default_factory=list, max_length=100)
    queued: bool = False
    running: bool = False
    waiting_for: str | None = Field(None, max_length=64)
    older_than_seconds: int | None = Field(None, ge=1, le=315_360_000)
    all: bool = False


class MemberWish(Wish):
    """One member of a group."""

    job: str = Field(min_length=1, max_length=300)
    params: dict[str, Any] = Field(default_factory=dict)
    always: bool = False


class GroupWish(DryRun):
    """A group that is made at run time."""

    name: str = Field(min_length=1, max_length=300)
    members: list[MemberWish] = Field(min_length=1, max_length=1000)
    mode: Literal["sequential", "parallel"] = "sequential"
    on_failure: Literal["stop", "continue"] = "stop"


class GroupRetryWish(DryRun):
    """How what failed in a group is to be repeated."""

    force: bool = False


class DirectWish(Wish):
    """A job that is to be executed in the next free slot, before the queue."""

    job: str = Field(min_length=1, max_length=300)
    params: dict[str, Any] = Field(default_factory=dict)
    within_seconds: float | None = Field(None, gt=0, le=86_400, description="How long to wait for a slot.")


class WorkerWish(Wish):
    """How a scheduler elsewhere registers."""

    lost_after_seconds: int = Field(600, ge=1, le=86_400, description="When it counts as gone, if not heard of.")


class StopWish(Wish):
    """How the scheduler is to stop. `hold`: nothing fires or starts, the process stays; the others end the process."""

    mode: Literal["hold", "grace", "idle", "within", "now", "detach"] = "hold"
    within_seconds: int | None = Field(None, ge=1, le=86_400)
    reason: str = Field("", max_length=1000)


class ApproveWish(Wish):
    """What is approved: the digest that was shown with it."""

    digest: str = Field(min_length=1, max_length=100)


class DeliveriesWish(DryRun):
    """Which deliveries are to be sent again."""

    ids: list[str] = Field(default_factory=list, max_length=1000)
    failed: bool = False


class StartWish(Wish):
    """What becomes of the instants that were held back."""

    catch_up: Literal["none", "once"] = "none"
