"""What a plan is made of: what is known of a job's runs, the runs and rows that are planned, and their names.

What every fire makes is not frozen: a simulation plans hundreds of thousands, and each would cost thrice as much.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.clock import iso
from rota.model.records import Job
from rota.model.states import Reason
from rota.rules.overlap import ActiveRun, After, Go, Replace


@dataclass(frozen=True, slots=True)
class Span:
    """An execution of the job; `end` None while it goes on, `handle` names its run where that is known."""

    start: datetime
    end: datetime | None
    handle: str | None = None

    def holds(self, instant: datetime) -> bool:
        """Return whether the execution was under way at `instant`."""
        return self.start <= instant and (self.end is None or instant < self.end)


@dataclass(frozen=True, slots=True)
class FireFacts:
    """What is known of the job's runs: the unfinished, oldest first, and the executions since `next_for`.

    `executed` leaves out the executions that ended process_restarted or worker_lost (R-10). `unseen`: how long nobody
    looked between two ticks; what fell into that time is not late.
    """

    active: tuple[ActiveRun, ...] = ()
    executed: tuple[Span, ...] = ()
    unseen: timedelta = timedelta()


@dataclass(slots=True)
class PlannedRun:
    """An instant that runs. `made_up`: by misfire once or all; `after_previous`: waits for the run planned before it.

    A verdict that names a run of the same plan does so by `planned_id(slot_key)`. `quiet_until`: the end of the quiet
    hours that it waited for (R-17).
    """

    scheduled_for: datetime
    slot_key: str
    verdict: Go | After | Replace
    late_by: timedelta
    made_up: bool = False
    after_previous: bool = False
    unseen: timedelta = timedelta()
    quiet_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlannedSkip:
    """An instant, or an unbroken stretch of instants up to `covers_to`, that does not run for one reason.

    `count` is None above 10,000; `blocking` names the run in the way; `late_by` is that of the first instant;
    `quiet_until` the end of the quiet hours that hold them all.
    """

    reason: Reason
    scheduled_for: datetime
    covers_to: datetime | None
    count: int | None
    slot_key: str
    late_by: timedelta
    blocking: str | None
    unseen: timedelta = timedelta()
    quiet_until: datetime | None = None


@dataclass(slots=True)
class FirePlan:
    """The rows to write, in the order of their instants, and where the cursor goes in the same transaction."""

    steps: tuple[PlannedRun | PlannedSkip, ...]
    next_for: datetime | None
    next_at: datetime | None


def past_when_created(job: Job) -> bool:
    """Tell whether the one instant of an `at` job was past when this state first stored the job (R-10)."""
    at = job.spec.schedule.at
    return at is not None and at < job.created_at


def planned_id(slot_key: str) -> str:
    """Return how a verdict names a run of its own plan, which has no id yet."""
    return f"planned:{slot_key}"


def verdict_among(step: PlannedRun, ids: Mapping[str, str]) -> Go | After | Replace:
    """Return the verdict with the identifiers that runs of the same plan got, by `planned_id`, in their order."""
    if step.after_previous and ids:
        return After(list(ids.values())[-1])
    if isinstance(step.verdict, After):
        return After(ids.get(step.verdict.predecessor_id, step.verdict.predecessor_id))
    if isinstance(step.verdict, Replace):
        return Replace(tuple(ids.get(run_id, run_id) for run_id in step.verdict.run_ids))
    return step.verdict


def planned_handle(instant: datetime) -> str:
    """Return how a plan names the run of an instant, which has no number yet."""
    return f"the run of {iso(instant)}"
