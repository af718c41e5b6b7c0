"""What a pause leaves behind when it ends: one counted row, and where the job goes on (R-20)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.clock import to_ms
from rota.model.records import Job
from rota.model.states import Reason
from rota.rules.cursor import NOWHERE, Cursor, cursor_at
from rota.rules.due import PlannedSkip
from rota.rules.instants import count_instants, last_instant, next_instant, previous_instant, within_bounds


@dataclass(frozen=True, slots=True)
class PausePlan:
    """The row of the instants in the pause, the instant to run after all, and the cursor from the end on."""

    skip: PlannedSkip | None
    catch_up: datetime | None
    cursor: Cursor


def plan_pause_end(job: Job, *, end: datetime, catch_up: bool, now: datetime) -> PausePlan:
    """Return what becomes of the instants from `job.held_for` up to `end`, that one included.

    With `catch_up` the latest of them runs and is not counted. Completion and start anchors whose instant fell into
    the pause go on one interval after its end.
    """
    if job.held_for is None:
        return PausePlan(None, None, NOWHERE)
    if job.held_for > end:
        return PausePlan(None, None, _cursor(job, job.held_for))
    if job.spec.schedule.follows_runs:
        return _plan_following(job, job.held_for, end=end, catch_up=catch_up, now=now)
    return _plan_instants(job, job.held_for, end=end, catch_up=catch_up, now=now)


def cursor_after_pause(job: Job) -> Cursor:
    """Return where a paused job goes on when its timed pause ends by itself; nowhere while its end is open."""
    end, held, schedule = job.paused_until, job.held_for, job.spec.schedule
    if end is None or held is None:
        return NOWHERE
    if held > end:
        return _cursor(job, held)
    if schedule.follows_runs:
        return _cursor(job, within_bounds(schedule, end + (schedule.interval or timedelta())))
    return _cursor(job, next_instant(schedule, after=end, created_at=job.created_at))


def _plan_instants(job: Job, first: datetime, *, end: datetime, catch_up: bool, now: datetime) -> PausePlan:
    schedule, created_at = job.spec.schedule, job.created_at
    last = last_instant(schedule, until=end, created_at=created_at) or first
    used_up = schedule.at is not None or (catch_up and schedule.run_once)
    cursor = NOWHERE if used_up else _cursor(job, next_instant(schedule, after=end, created_at=created_at))
    if not catch_up:
        return PausePlan(_skip(job, first, last, now=now), None, cursor)
    rest = previous_instant(schedule, before=last, created_at=created_at)
    skip = _skip(job, first, rest, now=now) if rest is not None and rest >= first else None
    return PausePlan(skip, last, cursor)


def _plan_following(job: Job, instant: datetime, *, end: datetime, catch_up: bool, now: datetime) -> PausePlan:
    if catch_up:
        return PausePlan(None, instant, NOWHERE)
    interval = job.spec.schedule.interval or timedelta()
    cursor = _cursor(job, within_bounds(job.spec.schedule, end + interval))
    return PausePlan(_skip(job, instant, instant, now=now), None, cursor)


def _skip(job: Job, first: datetime, last: datetime, *, now: datetime) -> PlannedSkip:
    one = first == last
    schedule = job.spec.schedule
    count = 1 if one else count_instants(schedule, first=first, last=last, created_at=job.created_at)
    return PlannedSkip(
        reason=Reason.PAUSED,
        scheduled_for=first,
        covers_to=None if one else last,
        count=count,
        slot_key=slot_key(job, first),
        late_by=now - first,
        blocking=None,
    )


def slot_key(job: Job, instant: datetime) -> str:
    """Return what makes the fire of an instant unique within its job (R-05)."""
    return f"#{job.fire_number + 1}" if job.spec.schedule.follows_runs else str(to_ms(instant))


def _cursor(job: Job, nominal: datetime | None) -> Cursor:
    return cursor_at(job.spec.schedule, nominal, name=job.name, created_at=job.created_at)
