"""The shapes of requests and answers, for OpenAPI."""

from itertools import combinations
from typing import Annotated, Any, Literal, TypedDict

from fastapi import Body
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rota.http.context import COMING, EXTENSIBLE, GROUP, PAST, WHEN, FilterWord, RequestBody, page_of
from rota.model.serialize import RunJson
from rota.model.states import WaitingFor
from rota.operations.admin.audit import EntryJson
from rota.operations.budgets import AccountJson
from rota.operations.groups import GroupEntryJson
from rota.operations.status.attention import NeedJson
from rota.operations.views import FireJson, JobJson, PauseJson, WholeJobJson


class Place(TypedDict):
    """Where in a body something is wrong."""

    message: str
    code: str
    path: str
    hint: str


class Problem(TypedDict):
    """An error (RFC 9457), with the code, text and hint that the command line tells."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    problems: list[Place]


class DryStart(TypedDict):
    """The run that a start would make; nothing was changed."""

    dry_run: Literal[True]
    run: str


RunPage = page_of(RunJson, "RunPage", "A page of runs, newest first; `next` is the cursor of the following page.")


class MadeJob(WholeJobJson):
    """A job that was made or replaced, and what is worth telling about it, as `rota check` does."""

    notes: list[str]


JobPage = page_of(JobJson, "JobPage", "Jobs by name.")


class Preview(TypedDict):
    """The coming fires of a job."""

    job: str
    timezone: str
    fires: list[FireJson]


class Told(TypedDict):
    """A change, in the shape that the command prints with --json."""


class Page(TypedDict):
    """A list; `next` is the cursor of the following page."""

    items: list[dict[str, Any]]
    next: str | None


class CancelledRun(RunJson):
    """A run that was cancelled, or is being stopped."""

    final: bool


class RetriedRun(TypedDict):
    """A run that was made of a finished one."""

    retried: str


class QueueView(TypedDict):
    """The head of the queue, as `rota queue --json`."""

    state: str
    paused: PauseJson | None
    slots: int | None
    slots_taken: int | None
    ready_count: int
    waiting_count: int
    direct: list[dict[str, Any]]
    ready: list[dict[str, Any]]
    waiting: list[dict[str, Any]]
    pools: list[dict[str, Any]]


GroupPage = page_of(GroupEntryJson, "GroupPage", "Groups by name.")


AccountPage = page_of(AccountJson, "AccountPage", "Accounts by name.")


class Worker(BaseModel):
    """A worker that claims runs, as `rota workers --json`; or, `remote`, a scheduler elsewhere that reads this one."""

    model_config = EXTENSIBLE

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
    last_seen_at: str | None = Field(None, description="When one that is gone last gave a sign of life.")


WorkerPage = page_of(Worker, "WorkerPage", "Workers by name.")


NeedPage = page_of(NeedJson, "NeedPage", "What needs somebody, the worst first.")


class Acknowledged(TypedDict):
    """What was acknowledged, or is shown again."""

    items: list[NeedJson]
    dry_run: bool


class System(TypedDict):
    """How the project is, as `rota status --json`."""

    state: Literal["running", "stopping", "failing", "elsewhere", "ticking", "stalled", "dead"]
    pid: int | None
    slots: int | None
    slots_taken: int | None
    jobs: int
    attention: list[dict[str, Any]]
    acknowledged: list[NeedJson]
    running: list[RunJson]
    queued: list[RunJson]
    next: list[dict[str, Any]]
    overdue: list[dict[str, Any]]


class Summary(TypedDict):
    """The summary of document 001, as `rota status --poll --json`."""

    queue_counts: dict[str, int]
    claimable: bool
    provisional_tasks: list[dict[str, Any]]
    orchestrator_registered: bool | None
    workers: list[dict[str, Any]]
    state: str
    mode: str
    next_due_at: str | None
    suggested_poll_seconds: int


EntryPage = page_of(EntryJson, "EntryPage", "Lines of the audit, newest first.")


class Health(BaseModel):
    """Whether the scheduler's loop answers."""

    model_config = EXTENSIBLE

    status: Literal["ok", "stopping", "stalled", "database_gone", "failing"]
    error: str | None = None


UNSET: dict[str, Any] = {"type": "null"}
OFF: dict[str, Any] = {"const": False}
EMPTY: dict[str, Any] = {"maxItems": 0}
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
ON: dict[str, Any] = {"const": True}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
"""Takes a whole number also where JSON writes it as 3.0: JSON Schema calls that an integer."""
Seconds = Annotated[int, Field(ge=1, le=315_360_000), Whole]
SecondsOfADay = Annotated[int, Field(ge=1, le=86_400), Whole]


def _rules(*never: dict[str, Any]) -> ConfigDict:
    """Return the settings of a wish to which none of these schemas applies."""
    return ConfigDict(json_schema_extra={"not": never[0] if len(never) == 1 else {"anyOf": list(never)}})


def _together(**fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a wish that has all of these fields with such values."""
    return {"required": list(fields), "properties": fields}


def _none_of(**fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a wish in which each of these fields is missing or has such a value."""
    return {"properties": fields}


class DryRun(RequestBody):
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

    model_config = _rules(_none_of(params={"maxProperties": 0}, priority=UNSET))

    params: dict[str, Any] | None = Field(None, description="Params over those that it has.")
    priority: Annotated[int, Field(ge=-1000, le=1000), Whole] | None = Field(
        None, description="Higher goes first in the queue."
    )


class MoveWish(DryRun):
    """Where a queued run is to stand: exactly one of these."""

    model_config = _rules(
        _none_of(first=OFF, last=OFF, before=UNSET, to=UNSET),
        *(
            _together(**dict(two))
            for two in combinations({"first": ON, "last": ON, "before": TEXT, "to": NUMBER}.items(), 2)
        ),
    )

    first: bool = Field(default=False, description="Before all others of its priority.")
    last: bool = Field(default=False, description="Behind all others of its priority.")
    before: str | None = Field(None, min_length=1, max_length=300, description="Just before this run.")
    to: Annotated[int, Field(ge=1, le=1000), Whole] | None = Field(
        None, description="To this place, as the queue counts it."
    )


class AcknowledgeWish(DryRun):
    """What is meant: names as the list tells them, or runs; or everything."""

    model_config = _rules(_none_of(names=EMPTY, all=OFF), _together(names={"minItems": 1}, all=ON))

    names: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(default_factory=list, max_length=100)
    all: bool = Field(default=False, description="Everything that needs somebody now, instead of names.")


class PauseWish(DryRun):
    """How long a pause lasts: until it is ended, for a time, or until an instant."""

    model_config = _rules(_together(until=TEXT, seconds=NUMBER))

    until: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="ISO 8601, to come; or a time of day in UTC.",
        json_schema_extra={"anyOf": [*COMING, UNSET]},
    )
    seconds: Seconds | None = Field(None, description="Or so many seconds from now.")
    reason: str = Field("", max_length=1000, description="Why, shown wherever the pause is.")


class ResumeWish(DryRun):
    """What becomes of the instants of a pause."""

    catch_up: Literal["none", "once"] = "none"


class BackfillWish(DryRun):
    """The past range to fill: [since, until)."""

    since: str = Field(min_length=1, max_length=64, description=WHEN, json_schema_extra={"anyOf": PAST})
    until: str = Field(min_length=1, max_length=64, description=WHEN, json_schema_extra={"anyOf": PAST})
    parallel: bool = False
    only_missed: bool = False


class SweepWish(DryRun):
    """Which unfinished runs are to be cancelled; at least one of these."""

    model_config = _rules(
        _none_of(
            jobs=EMPTY, labels=EMPTY, queued=OFF, running=OFF, waiting_for=UNSET, older_than_seconds=UNSET, all=OFF
        ),
        _together(waiting_for=TEXT, running=ON),
    )

    jobs: list[FilterWord] = Field(default_factory=list, max_length=1000)
    labels: list[FilterWord] = Field(default_factory=list, max_length=100)
    queued: bool = False
    running: bool = False
    waiting_for: str | None = Field(
        None, min_length=1, max_length=64, json_schema_extra={"anyOf": [{"enum": list(WaitingFor)}, UNSET]}
    )
    older_than_seconds: Seconds | None = None
    all: bool = False


class MemberWish(RequestBody):
    """One member of a group."""

    job: str = Field(min_length=1, max_length=300)
    params: dict[str, Any] = Field(default_factory=dict)
    always: bool = False


class GroupWish(DryRun):
    """A group that is made at run time."""

    model_config = _rules(_none_of(members={"items": _together(always=ON)}))

    name: str = Field(min_length=1, max_length=401, json_schema_extra={"pattern": GROUP})
    members: list[MemberWish] = Field(min_length=1, max_length=1000)
    mode: Literal["sequential", "parallel"] = "sequential"
    on_failure: Literal["stop", "continue"] = "stop"


class GroupRetryWish(DryRun):
    """How what failed in a group is to be repeated."""

    force: bool = False


class DirectWish(RequestBody):
    """A job that is to be executed in the next free slot, before the queue."""

    job: str = Field(min_length=1, max_length=300)
    params: dict[str, Any] = Field(default_factory=dict)
    within_seconds: float | None = Field(None, ge=1, le=86_400, description="How long to wait for a slot.")


class WorkerWish(RequestBody):
    """How a scheduler elsewhere registers."""

    lost_after_seconds: SecondsOfADay = Field(600, description="When it counts as gone, if not heard of.")


class StopWish(RequestBody):
    """How the scheduler is to stop. `hold`: nothing fires or starts, the process stays; the others end the process."""

    mode: Literal["hold", "grace", "idle", "within", "now", "detach"] = "hold"
    within_seconds: SecondsOfADay | None = None
    reason: str = Field("", max_length=1000)


class ApproveWish(RequestBody):
    """What is approved: the digest that was shown with it."""

    digest: str = Field(min_length=1, max_length=100)


class DeliveriesWish(DryRun):
    """Which deliveries are to be sent again."""

    model_config = _rules(_none_of(ids=EMPTY, failed=OFF))

    ids: list[str] = Field(default_factory=list, max_length=1000)
    failed: bool = False


class StartWish(RequestBody):
    """What becomes of the instants that were held back."""

    catch_up: Literal["none", "once"] = "none"


# Bodies that a request may leave out. A `null` in their place is refused.
OptionalDryRun = Annotated[DryRun, Body(default_factory=DryRun)]
OptionalTriggerWish = Annotated[TriggerWish, Body(default_factory=TriggerWish)]
OptionalRetryWish = Annotated[RetryWish, Body(default_factory=RetryWish)]
OptionalPauseWish = Annotated[PauseWish, Body(default_factory=PauseWish)]
OptionalResumeWish = Annotated[ResumeWish, Body(default_factory=ResumeWish)]
OptionalGroupRetryWish = Annotated[GroupRetryWish, Body(default_factory=GroupRetryWish)]
OptionalWorkerWish = Annotated[WorkerWish, Body(default_factory=WorkerWish)]
OptionalStopWish = Annotated[StopWish, Body(default_factory=StopWish)]
OptionalStartWish = Annotated[StartWish, Body(default_factory=StartWish)]
