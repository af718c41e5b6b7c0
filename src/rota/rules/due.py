"""What becomes of every due instant of a job: a run, or a counted row that says why not (R-05 to R-07, R-10, R-17)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.records import Job
from rota.model.spec import MisfirePolicy
from rota.model.states import Reason
from rota.rules.cursor import NOWHERE, Cursor
from rota.rules.everyday import plan_everyday
from rota.rules.instants import last_instant, within_bounds
from rota.rules.lull import Lull, defers, has_lulls, lull_at
from rota.rules.overlap import Refuse, judge
from rota.rules.planned import FireFacts, FirePlan, Span
from rota.rules.planner import Planner

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Instants from `first` to `last` with one fate: that of a lull, prompt, or late.

    Late ones were missed, or `span` was executing during all of them.
    """

    first: datetime
    last: datetime
    late: bool = False
    span: Span | None = None
    lull: Lull | None = None


def plan_fire(job: Job, facts: FireFacts, *, now: datetime) -> FirePlan:
    """Return the fate of every instant of `job` that is due at `now`, each exactly once."""
    if job.next_for is None or not job.schedules:
        return FirePlan((), job.next_for, job.next_at)
    return plan_everyday(job, facts, now=now) or plan_in_full(Planner(job, facts, now), job.next_for)


def plan_in_full(planner: Planner, next_for: datetime) -> FirePlan:
    """Return the fate of every instant that is due, whatever lies in its way."""
    follows = planner.job.spec.schedule.follows_runs
    return _plan_following(planner, next_for) if follows else _plan_instants(planner, next_for)


def plan_close(job: Job, *, now: datetime) -> FirePlan:
    """Return the rows of the instants that wait for quiet hours to end later, where their definition ends now (R-17).

    None of them runs, also where quiet hours defer: the next definition decides what becomes of the rest of them.
    """
    planner = Planner(job, FireFacts(), now)
    if job.next_for is None or job.spec.schedule.follows_runs:
        return _close_following(planner, job.next_for)
    last = last_instant(job.spec.schedule, until=now, created_at=job.created_at) or job.next_for
    for stretch in _parts(planner, job.next_for, last, late=None):
        if stretch.lull is not None:
            planner.hush(stretch.lull, stretch.first, stretch.last)
    return planner.plan(planner.cursor(planner.next(last)))


def _close_following(planner: Planner, nominal: datetime | None) -> FirePlan:
    lull = None if nominal is None else lull_at(planner.job.spec.schedule, nominal)
    if nominal is None or lull is None or lull.reason is None:
        return planner.plan(Cursor(nominal, planner.job.next_at))
    planner.hush(lull, nominal, nominal)
    return planner.plan(_after_lull(planner, lull))


def _plan_instants(planner: Planner, next_for: datetime) -> FirePlan:
    """Plan cron, at and fixed: in each part the late instants are first, as jitter never reaches the next instant."""
    first, last = planner.first(next_for), planner.last_fired(planner.now)
    if first is None or last is None or last < first:
        return planner.plan(planner.cursor(first))
    late = planner.last_fired(planner.now - planner.grace - _INSTANT)
    _plan_stretches(planner, list(_parts(planner, first, last, late=late)))
    return planner.plan(planner.cursor(planner.next(last)))


def _parts(planner: Planner, first: datetime, last: datetime, *, late: datetime | None) -> Iterator[_Stretch]:
    """Cut the due instants where quiet hours and excluded days begin and end, and where they are no longer late."""
    schedule = planner.job.spec.schedule
    lulls = has_lulls(schedule)
    instant: datetime | None = first
    while instant is not None and instant <= last:
        lull = lull_at(schedule, instant) if lulls else Lull(None, None)
        end = last if lull.until is None or last < lull.until else planner.previous(lull.until) or instant
        if lull.reason is None:
            yield from _open_parts(planner, instant, end, late=late)
        else:
            yield _Stretch(instant, end, lull=lull)
        instant = planner.next(end)


def _open_parts(planner: Planner, first: datetime, last: datetime, *, late: datetime | None) -> Iterator[_Stretch]:
    prompt: datetime | None = first
    if late is not None and late >= first:
        yield from _late_parts(planner, first, min(late, last))
        prompt = planner.next(min(late, last))
    if prompt is not None and prompt <= last:
        yield _Stretch(prompt, last)


def _plan_following(planner: Planner, nominal: datetime) -> FirePlan:
    """Plan the one instant of a completion or start anchor; a run sets the cursor when its chain is final."""
    job, now = planner.job, planner.now
    lull = lull_at(job.spec.schedule, nominal)
    fires = job.next_at or nominal
    fires = fires if lull.fires is None else max(fires, lull.fires)
    if fires > now:
        return planner.plan(Cursor(nominal, fires))
    if lull.reason is not None:
        _plan_stretches(planner, [_Stretch(nominal, nominal, lull=lull)])
    else:
        late = now > fires + planner.grace
        span = next((span for span in planner.facts.executed if span.holds(nominal)), None) if late else None
        _plan_stretches(planner, [_Stretch(nominal, nominal, late=late, span=span)])
    if planner.runs:
        return planner.plan(NOWHERE)
    if lull.reason is not None and not _runs_later(planner, lull):
        return planner.plan(_after_lull(planner, lull))
    if job.interval is None:
        return planner.plan(NOWHERE)  # never in this mode: the next one plans it
    following = max(now + job.interval, planner.held_back_until or now)
    return planner.plan(planner.cursor(within_bounds(job.spec.schedule, following)))


def _runs_later(planner: Planner, lull: Lull) -> bool:
    return lull.reason is Reason.QUIET_HOURS and defers(planner.job.spec.schedule)


def _after_lull(planner: Planner, lull: Lull) -> Cursor:
    """Return where a completion or start anchor goes on whose instant was skipped: as after a pause (R-20)."""
    job = planner.job
    end = lull.fires if lull.reason is Reason.QUIET_HOURS else lull.until
    if job.interval is None or end is None:
        return NOWHERE
    following = max(end + job.interval, planner.held_back_until or end)
    return planner.cursor(within_bounds(job.spec.schedule, following))


def _plan_prompt(planner: Planner, first: datetime, last: datetime) -> None:
    """Plan the instants that are not late, one by one, overlap judging each; those held back are not even judged."""
    instant: datetime | None = first
    until = planner.held_back_until
    if until is not None and first < until:
        held = planner.last_before(until, first, last)
        planner.skip(Reason.BACKING_OFF, first, held)
        instant = None if held == last else planner.next(held)
    while instant is not None and instant <= last and not planner.used_up:
        verdict = judge(planner.job.spec.overlap, planner.active)
        if isinstance(verdict, Refuse):  # nothing changes for the others: they are refused for the same reason
            planner.refuse(verdict, instant, last)
            return
        planner.run(instant, verdict)
        instant = planner.next(instant)


def _late_parts(planner: Planner, first: datetime, last: datetime) -> list[_Stretch]:
    """Cut the late instants where an execution begins or ends."""
    spans = sorted(planner.facts.executed, key=lambda span: span.start)
    found: list[_Stretch] = []
    instant: datetime | None = first
    while instant is not None and instant <= last:
        spans = [span for span in spans if span.end is None or span.end > instant]
        held = next((span for span in spans if span.holds(instant)), None)
        border = held.end if held else next((span.start for span in spans), None)
        end = planner.previous(border) if border is not None else None
        found.append(_Stretch(instant, last if end is None else min(end, last), late=True, span=held))
        instant = planner.next(found[-1].last)
    return found


def _plan_stretches(planner: Planner, stretches: list[_Stretch]) -> None:
    made_up = _to_make_up(planner, stretches)
    deferred = _to_defer(planner, stretches)
    for stretch in stretches:
        if planner.used_up:
            return
        if stretch.lull is not None:
            rest = planner.before(stretch.last, stretch.first) if stretch is deferred else stretch.last
            planner.hush(stretch.lull, stretch.first, rest)
            if stretch is deferred:
                planner.defer(stretch.last, until=stretch.lull.fires)
        elif stretch.late:
            _plan_late(planner, stretch, made_up)
        else:
            _plan_prompt(planner, stretch.first, stretch.last)


def _to_defer(planner: Planner, stretches: Sequence[_Stretch]) -> _Stretch | None:
    """Return the stretch whose last instant runs at the end of quiet hours: of several nights only the last (R-17)."""
    if not defers(planner.job.spec.schedule):
        return None
    return next((one for one in reversed(stretches) if one.lull and one.lull.reason is Reason.QUIET_HOURS), None)


def _plan_late(planner: Planner, stretch: _Stretch, made_up: Sequence[datetime]) -> None:
    if stretch.span is not None:
        key = stretch.span.handle or stretch.span
        planner.skip(Reason.OVERLAP, stretch.first, stretch.last, blocking=stretch.span.handle, key=key)
        return
    here = [instant for instant in made_up if stretch.first <= instant <= stretch.last]
    rest = planner.before(here[0], stretch.first) if here else stretch.last
    if rest is not None:
        planner.skip(Reason.MISSED, stretch.first, rest)
    for instant in here:
        planner.make_up(instant)


def _to_make_up(planner: Planner, stretches: Sequence[_Stretch]) -> list[datetime]:
    """Return the missed instants that run nevertheless, oldest first: the newest ones that are young enough (R-10).

    With `once` an instant that is due and not late stands for all that were missed.
    """
    misfire = planner.job.spec.misfire
    if planner.before_creation or (misfire.policy is MisfirePolicy.ONCE and _runs_punctually(planner, stretches)):
        return []
    wanted = {MisfirePolicy.SKIP: 0, MisfirePolicy.ONCE: 1, MisfirePolicy.ALL: misfire.limit}[misfire.policy]
    found: list[datetime] = []
    for stretch in reversed([stretch for stretch in stretches if stretch.late and stretch.span is None]):
        instant: datetime | None = stretch.last
        while instant is not None and len(found) < wanted:
            if misfire.max_age is not None and planner.late_by(instant) > misfire.max_age:
                return found[::-1]
            found.append(instant)
            instant = planner.before(instant, stretch.first)
    return found[::-1]


def _runs_punctually(planner: Planner, stretches: Sequence[_Stretch]) -> bool:
    """Tell whether an instant of the plan is due, not late, in no lull and not held back."""
    until = planner.held_back_until
    prompt = (stretch for stretch in stretches if not stretch.late and stretch.lull is None)
    return any(until is None or stretch.last >= until for stretch in prompt)
