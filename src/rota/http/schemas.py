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
from rota.operations.questions.grants import GrantJson
from rota.operations.questions.views import QuestionJson
from rota.operations.status.attention import NeedJson
from rota.operations.views import FireJson, JobJson, WholeJobJson


class Place(TypedDict):
    """The place of a problem in a body."""

    message: str
    code: str
    path: str
    hint: str


class Problem(TypedDict):
    """An error (RFC 9457), with the code, text and hint of the command line."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    problems: list[Place]


class DryStart(TypedDict):
    """The run that a start would create; nothing was changed."""

    dry_run: Literal[True]
    run: str


RunPage = page_of(RunJson, "RunPage", "A page of runs, newest first; `next` is the cursor of the following page.")


class MadeJob(WholeJobJson):
    """A job that was created or replaced, with the notes of `rota check`."""

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
    """A new run of a finished one."""

    retried: str


class ForkedRun(TypedDict):
    """A new run that goes on from the session of a finished one."""

    forked: str


GroupPage = page_of(GroupEntryJson, "GroupPage", "Groups by name.")


AccountPage = page_of(AccountJson, "AccountPage", "Accounts by name.")


class Worker(BaseModel):
    """A worker that claims runs, as `rota workers --json`; or, `remote`, a remote scheduler that reads this one."""

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
    last_seen_at: str | None = Field(None, description="The last contact of a lost worker.")


WorkerPage = page_of(Worker, "WorkerPage", "Workers by name.")


NeedPage = page_of(NeedJson, "NeedPage", "Attention items, the worst first.")


class Acknowledged(TypedDict):
    """The items that were acknowledged, or are shown again."""

    items: list[NeedJson]
    dry_run: bool


class System(TypedDict):
    """The state of the project, as `rota status --json`."""

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


GrantPage = page_of(GrantJson, "GrantPage", "Standing grants of tool calls, newest first.")
QuestionPage = page_of(QuestionJson, "QuestionPage", "A page of questions to people, newest first.")
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
"""Accepts 3.0 as well: JSON Schema calls it an integer."""
Seconds = Annotated[int, Field(ge=1, le=315_360_000), Whole]
SecondsOfADay = Annotated[int, Field(ge=1, le=86_400), Whole]


def _rules(*never: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"not": never[0] if len(never) == 1 else {"anyOf": list(never)}})


def _together(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"required": list(fields), "properties": fields}


def _none_of(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"properties": fields}


class DryRun(RequestBody):
    """A change that supports a dry run."""

    dry_run: bool = Field(default=False, description="Dry run: return the effect, change nothing.")


class TriggerWish(DryRun):
    """The start of a job."""

    params: dict[str, Any] = Field(default_factory=dict, description="Params that override those of the job.")
    force: bool = Field(default=False, description="Ignore overlap and conditions; this is recorded.")


class BulkWish(DryRun):
    """Many runs of a job at once, all of them or none."""

    params: list[dict[str, Any]] = Field(min_length=1, max_length=10_000, description="The params of each run.")
    force: bool = Field(default=False, description="Ignore overlap; this is recorded.")


class RetryWish(DryRun):
    """The retry of a finished run."""

    again: bool = Field(default=False, description="Also a run that COMPLETED.")
    force: bool = Field(default=False, description="Ignore overlap; this is recorded.")
    params: dict[str, Any] = Field(default_factory=dict, description="Params that override those of the run.")


class ForkWish(DryRun):
    """A run that goes on from the session of a finished one."""

    prompt: str = Field(min_length=1, max_length=1_000_000, description="The task of the new run.")
    force: bool = Field(default=False, description="Ignore overlap; this is recorded.")


class EditWish(DryRun):
    """The changes of a queued run."""

    model_config = _rules(_none_of(params={"maxProperties": 0}, priority=UNSET))

    params: dict[str, Any] | None = Field(None, description="Params that override those of the run.")
    priority: Annotated[int, Field(ge=-1000, le=1000), Whole] | None = Field(None, description="Higher starts first.")


class MoveWish(DryRun):
    """The new place of a queued run: exactly one of these."""

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
    to: Annotated[int, Field(ge=1, le=1000), Whole] | None = Field(None, description="To this place in the queue.")


class AcknowledgeWish(DryRun):
    """The items: names of the list, or runs; or all."""

    model_config = _rules(_none_of(names=EMPTY, all=OFF), _together(names={"minItems": 1}, all=ON))

    names: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(default_factory=list, max_length=100)
    all: bool = Field(default=False, description="All items, instead of names.")


class PauseWish(DryRun):
    """The duration of a pause: until it is resumed, for a time, or until an instant."""

    model_config = _rules(_together(until=TEXT, seconds=NUMBER))

    until: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="ISO 8601, in the future; or a time of day in UTC.",
        json_schema_extra={"anyOf": [*COMING, UNSET]},
    )
    seconds: Seconds | None = Field(None, description="Or the duration in seconds.")
    reason: str = Field("", max_length=1000, description="The reason, shown with the pause.")


class ResumeWish(DryRun):
    """The handling of the instants of a pause."""

    catch_up: Literal["none", "once"] = "none"


class BackfillWish(DryRun):
    """The past range to fill: [since, until)."""

    since: str = Field(min_length=1, max_length=64, description=WHEN, json_schema_extra={"anyOf": PAST})
    until: str = Field(min_length=1, max_length=64, description=WHEN, json_schema_extra={"anyOf": PAST})
    parallel: bool = False
    only_missed: bool = False


class SweepWish(DryRun):
    """The unfinished runs to cancel; at least one of these."""

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
    """A group that is created at run time."""

    model_config = _rules(_none_of(members={"items": _together(always=ON)}))

    name: str = Field(min_length=1, max_length=401, json_schema_extra={"pattern": GROUP})
    members: list[MemberWish] = Field(min_length=1, max_length=1000)
    mode: Literal["sequential", "parallel"] = "sequential"
    on_failure: Literal["stop", "continue"] = "stop"


class GroupRetryWish(DryRun):
    """The retry of the failed members of a group."""

    force: bool = False


class DirectWish(RequestBody):
    """A job to execute in the next free slot, before the queue."""

    job: str = Field(min_length=1, max_length=300)
    params: dict[str, Any] = Field(default_factory=dict)
    within_seconds: float | None = Field(None, ge=1, le=86_400, description="The longest wait for a slot.")


class WorkerWish(RequestBody):
    """The registration of a remote scheduler."""

    lost_after_seconds: SecondsOfADay = Field(
        600, description="Time without a heartbeat after which it counts as lost."
    )


class StopWish(RequestBody):
    """The stop of the scheduler. `hold`: nothing fires or starts, the process stays; the others end the process."""

    mode: Literal["hold", "grace", "idle", "within", "now", "detach"] = "hold"
    within_seconds: SecondsOfADay | None = None
    reason: str = Field("", max_length=1000)


class ApproveWish(RequestBody):
    """The approved definition, by the digest that was shown with it."""

    digest: str = Field(min_length=1, max_length=100)


class AnswerWish(RequestBody):
    """An answer: a choice or a text. `digest` is that of the question that was shown."""

    answer: str = Field(min_length=1, max_length=4000)
    digest: str = Field(min_length=1, max_length=100)


class DeliveriesWish(DryRun):
    """The notifications to resend."""

    model_config = _rules(_none_of(ids=EMPTY, failed=OFF))

    ids: list[str] = Field(default_factory=list, max_length=1000)
    failed: bool = False


class StartWish(RequestBody):
    """The handling of the instants of the stop."""

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
