"""What the API answers, for OpenAPI: the shapes of `--json`. Answers may gain fields, wishes may not."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class DryStart(Shape):
    """The run that a start would make; nothing was changed."""

    dry_run: Literal[True]
    run: str


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
    clock_skew_seconds: float | None = None
    last_seen_at: Instant | None = Field(None, description="When one that is gone last gave a sign of life.")


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


class Seen(Shape):
    """Who has acknowledged something, and when."""

    by: str
    at: Instant


class Need(Shape):
    """Something that needs somebody, as `rota ack --json`; `about` is the run or job that it is about."""

    name: str
    kind: str
    what: str
    command: str
    about: str | None
    acknowledged: Seen | None


class NeedPage(Shape):
    """What needs somebody, the worst first."""

    items: list[Need]
    next: str | None


class Acknowledged(Shape):
    """What was acknowledged, or is shown again."""

    items: list[Need]
    dry_run: bool


class System(Shape):
    """How the project is, as `rota status --json`."""

    state: Literal["running", "stopping", "failing", "elsewhere", "ticking", "stalled", "dead"]
    pid: int | None
    slots: int | None
    slots_taken: int | None
    jobs: int
    attention: list[dict[str, Any]]
    acknowledged: list[Need]
    running: list[Run]
    queued: list[Run]
    next: list[dict[str, Any]]
    overdue: list[dict[str, Any]]


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

    status: Literal["ok", "stopping", "stalled", "database_gone", "failing"]
    error: str | None = None
