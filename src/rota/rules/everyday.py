"""What nearly every fire is, planned without a look back: one instant, due and not late, with nothing in its way."""

from datetime import datetime, timedelta

from rota.model.clock import to_ms
from rota.model.records import Job
from rota.rules.cursor import NOWHERE, Cursor, cursor_of
from rota.rules.instants import first_instant, next_instant
from rota.rules.lull import has_lulls
from rota.rules.overlap import Go, judge
from rota.rules.planned import FireFacts, FirePlan, PlannedRun

_NOT_LATE = timedelta()


def plan_everyday(job: Job, facts: FireFacts, *, now: datetime) -> FirePlan | None:
    """Return the plan of a fire where there is nothing to think about, None where there is: then plan it in full."""
    instant, fires, spec = job.next_for, job.next_at, job.spec
    if instant is None or fires is None or not fires <= now <= fires + max(spec.misfire.grace, facts.unseen):
        return None
    if spec.schedule.run_once or job.backing_off_until is not None or has_lulls(spec.schedule):
        return None
    verdict, cursor = judge(spec.overlap, facts.active), _cursor(job, instant, now=now)
    if cursor is None or not isinstance(verdict, Go):
        return None
    key = f"#{job.fire_number + 1}" if spec.schedule.follows_runs else str(to_ms(instant))
    late_by = max(now - fires, _NOT_LATE)
    run = PlannedRun(instant, key, verdict, late_by, made_up=False, after_previous=False, unseen=facts.unseen)
    return FirePlan((run,), cursor.next_for, cursor.next_at)


def _cursor(job: Job, instant: datetime, *, now: datetime) -> Cursor | None:
    """Return where the cursor goes behind `instant`; None: more than this one is due, or it is none."""
    schedule, created_at = job.spec.schedule, job.created_at
    if schedule.follows_runs:
        return NOWHERE  # its run sets it when the chain is final
    if first_instant(schedule, since=instant, created_at=created_at) != instant:
        return None
    following = next_instant(schedule, after=instant, created_at=created_at)
    return None if following is not None and following <= now else cursor_of(job, following)
