"""What nearly every fire is, planned without a look back: one instant, due and not late, with nothing in its way."""

from datetime import datetime

from rota.model.clock import to_ms
from rota.model.records import Job
from rota.rules.cursor import NOWHERE, Cursor, cursor_of
from rota.rules.instants import first_instant, next_instant
from rota.rules.lull import has_lulls
from rota.rules.overlap import Go, judge
from rota.rules.planned import FireFacts, FirePlan, PlannedRun, past_when_created


def plan_everyday(job: Job, facts: FireFacts, *, now: datetime) -> FirePlan | None:
    """Return the plan of a fire where there is nothing to think about, None where there is: then plan it in full."""
    instant, fires, spec = job.next_for, job.next_at, job.spec
    schedule = spec.schedule
    if instant is None or fires is None or fires > now or schedule.run_once or job.backing_off_until is not None:
        return None
    if past_when_created(job):
        return None
    late_by = now - fires
    if (late_by and late_by > max(spec.misfire.grace, facts.unseen)) or has_lulls(schedule):
        return None
    verdict = judge(spec.overlap, facts.active)
    if not isinstance(verdict, Go):
        return None
    follows = schedule.follows_runs
    cursor = NOWHERE if follows else _cursor(job, instant, now=now)  # a run that is followed sets it when it is final
    if cursor is None:
        return None
    key = f"#{job.fire_number + 1}" if follows else str(to_ms(instant))
    run = PlannedRun(instant, key, verdict, late_by, unseen=facts.unseen)
    return FirePlan((run,), cursor.next_for, cursor.next_at)


def _cursor(job: Job, instant: datetime, *, now: datetime) -> Cursor | None:
    """Return where the cursor goes behind `instant`; None: more than this one is due, or it is none."""
    schedule, created_at = job.spec.schedule, job.created_at
    if first_instant(schedule, since=instant, created_at=created_at) != instant:
        return None
    following = next_instant(schedule, after=instant, created_at=created_at)
    return None if following is not None and following <= now else cursor_of(job, following)
