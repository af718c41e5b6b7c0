"""The end of a pause: one counted row, and the cursor from there on."""

from datetime import datetime

from msgspec import Struct

from rota.model.records import Job
from rota.model.states import Reason
from rota.rules.schedule import instants
from rota.rules.schedule.blackouts import waiting_run
from rota.rules.schedule.cursor import NOWHERE, Cursor, cursor_of
from rota.rules.schedule.plan import PlannedSkip, past_when_created, plan_skip


class PausePlan(Struct, frozen=True):
    """The row of the instants in the pause, the instant to catch up, and the cursor from the end on."""

    skip: PlannedSkip | None
    catch_up: datetime | None
    cursor: Cursor


def plan_pause_end(
    job: Job, *, end: datetime, catch_up: bool, now: datetime, closing: bool = False, refused: bool = False
) -> PausePlan:
    """Return the plan of the instants from `job.held_for` up to and including `end`.

    With `catch_up` the latest of them runs and is not counted; `refused`: overlap forbids that, so its row is a
    skip of its own. Completion and start anchors with an instant in the pause continue one interval after its end.
    Instants that wait for quiet hours beyond the pause keep waiting, unless their definition ends too (`closing`).
    """
    if job.held_for is None:
        return PausePlan(None, None, NOWHERE)
    catch_up = catch_up and not past_when_created(job)
    last = _last_held(job, job.held_for, end=end, closing=closing)
    if last is None:
        return PausePlan(None, None, cursor_of(job, job.held_for))
    if job.spec.schedule.follows_runs:
        return _plan_following(job, job.held_for, end=end, catch_up=catch_up, refused=refused, now=now)
    return _plan_instants(job, job.held_for, last, catch_up=catch_up, refused=refused, now=now)


def _last_held(job: Job, first: datetime, *, end: datetime, closing: bool = False) -> datetime | None:
    """Return the last instant that a pause up to `end` holds back, None for none."""
    schedule = job.spec.schedule
    if first > end:
        return None
    if schedule.follows_runs:
        quiet = None if closing else waiting_run(schedule, first)
        return first if quiet is None or quiet.until <= end else None
    if closing:
        return instants.last_instant(schedule, until=end, created_at=job.created_at) or first
    last = instants.last_come(schedule, until=end, created_at=job.created_at)
    return None if last is None or last < first else last


def cursor_after_pause(job: Job) -> Cursor:
    """Return the cursor after a timed pause; nowhere for a pause without an end."""
    end, held, schedule = job.paused_until, job.held_for, job.spec.schedule
    if end is None or held is None:
        return NOWHERE
    last = _last_held(job, held, end=end)
    if last is None:
        return cursor_of(job, held)
    if schedule.follows_runs:
        return NOWHERE if job.interval is None else cursor_of(job, instants.within_bounds(schedule, end + job.interval))
    return cursor_of(job, instants.next_instant(schedule, after=last, created_at=job.created_at))


def _plan_instants(
    job: Job, first: datetime, last: datetime, *, catch_up: bool, refused: bool, now: datetime
) -> PausePlan:
    schedule, created_at = job.spec.schedule, job.created_at
    used_up = schedule.at is not None or (catch_up and schedule.run_once and not refused)
    cursor = NOWHERE if used_up else cursor_of(job, instants.next_instant(schedule, after=last, created_at=created_at))
    if not catch_up:
        return PausePlan(plan_skip(job, Reason.PAUSED, first, last, late_by=now - first), None, cursor)
    rest = instants.previous_instant(schedule, before=last, created_at=created_at)
    if rest is None or rest < first:
        return PausePlan(None, last, cursor)
    return PausePlan(plan_skip(job, Reason.PAUSED, first, rest, late_by=now - first), last, cursor)


def _plan_following(
    job: Job, instant: datetime, *, end: datetime, catch_up: bool, refused: bool, now: datetime
) -> PausePlan:
    if catch_up and not refused:
        return PausePlan(None, instant, NOWHERE)
    following = None if job.interval is None else instants.within_bounds(job.spec.schedule, end + job.interval)
    cursor = cursor_of(job, following)
    if catch_up:
        return PausePlan(None, instant, cursor)
    return PausePlan(plan_skip(job, Reason.PAUSED, instant, instant, late_by=now - instant), None, cursor)
