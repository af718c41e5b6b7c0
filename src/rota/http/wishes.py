"""What requests to the API bring, for OpenAPI. Unlike answers, wishes may not gain fields."""

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.http.routes.names import FilterWord
from rota.http.routing import Wish


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
    before: str | None = Field(None, min_length=1, max_length=300, description="Just before this run.")
    to: int | None = Field(None, ge=1, le=1000, description="To this place, as the queue counts it.")


class AcknowledgeWish(DryRun):
    """What is meant: names as the list tells them, or runs; or everything."""

    names: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(default_factory=list, max_length=100)
    all: bool = Field(default=False, description="Everything that needs somebody now, instead of names.")


class PauseWish(DryRun):
    """How long a pause lasts: until it is ended, for a time, or until an instant."""

    until: str | None = Field(None, min_length=1, max_length=64, description="ISO 8601.")
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

    jobs: list[FilterWord] = Field(default_factory=list, max_length=1000)
    labels: list[FilterWord] = Field(default_factory=list, max_length=100)
    queued: bool = False
    running: bool = False
    waiting_for: str | None = Field(None, min_length=1, max_length=64)
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
