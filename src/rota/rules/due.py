"""What becomes of every due instant of a job: a run, or a counted row that says why not (R-05, R-06, R-07, R-10)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.model.clock import iso, to_ms
from rota.model.records import Job
from rota.model.spec import MisfirePolicy
from rota.model.states import Reason, Status
from rota.rules.cursor import NOWHERE, Cursor, cursor_at
from rota.rules.instants import (
    count_instants,
    fires_at,
    first_instant,
    last_instant,
    next_instant,
    previous_instant,
    within_bounds,
)
from rota.rules.overlap import ActiveRun, After, Go, Refuse, Replace, judge

_INSTANT = timedelta(microseconds=1)


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

    `executed` leaves out the executions that ended process_restarted or worker_lost (R-10).
    """

    active: tuple[ActiveRun, ...] = ()
    executed: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """An instant that runs. `made_up`: by misfire once or all; `after_previous`: waits for the run planned before it.

    A verdict that names a run of the same plan does so by `planned_id(slot_key)`.
    """

    scheduled_for: datetime
    slot_key: str
    verdict: Go | After | Replace
    late_by: timedelta
    made_up: bool
    after_previous: bool


@dataclass(frozen=True, slots=True)
class PlannedSkip:
    """An instant, or an unbroken stretch of instants up to `covers_to`, that does not run for one reason.

    `count` is None above 10,000; `blocking` names the run in the way; `late_by` is that of the first instant.
    """

    reason: Reason
    scheduled_for: datetime
    covers_to: datetime | None
    count: int | None
    slot_key: str
    late_by: timedelta
    blocking: str | None


@dataclass(frozen=True, slots=True)
class FirePlan:
    """The rows to write, in the order of their instants, and where the cursor goes in the same transaction."""

    steps: tuple[PlannedRun | PlannedSkip, ...]
    next_for: datetime | None
    next_at: datetime | None


def planned_id(slot_key: str) -> str:
    """Return how a verdict names a run of its own plan, which has no id yet."""
    return f"planned:{slot_key}"


def planned_handle(instant: datetime) -> str:
    """Return how a plan names the run of an instant, which has no number yet."""
    return f"the run of {iso(instant)}"


def plan_fire(job: Job, facts: FireFacts, *, now: datetime) -> FirePlan:
    """Return the fate of every instant of `job` that is due at `now`, each exactly once."""
    if job.next_for is None or not job.schedules:
        return FirePlan((), job.next_for, job.next_at)
    if job.spec.schedule.follows_runs:
        return _plan_following(_Planner(job, facts, now), job.next_for)
    return _plan_instants(_Planner(job, facts, now), job.next_for)


def _plan_instants(planner: "_Planner", next_for: datetime) -> FirePlan:
    """Plan cron, at and fixed: the late instants are a first part, since jitter never reaches the next instant."""
    first, last = planner.first(next_for), planner.last_fired(planner.now)
    if first is None or last is None or last < first:
        return planner.plan(planner.cursor(first))
    late = planner.last_fired(planner.now - planner.job.spec.misfire.grace - _INSTANT)
    if late is not None and late >= first:
        _plan_late(planner, _stretches(planner, first, late))
        first = planner.next(late)
    if first is not None and first <= last:
        _plan_prompt(planner, first, last)
    return planner.plan(planner.cursor(planner.next(last)))


def _plan_following(planner: "_Planner", nominal: datetime) -> FirePlan:
    """Plan the one instant of a completion or start anchor; a run sets the cursor when its chain is final."""
    job, now = planner.job, planner.now
    fires = job.next_at or nominal
    if fires > now:
        return planner.plan(Cursor(nominal, fires))
    if now > fires + job.spec.misfire.grace:
        span = next((span for span in planner.facts.executed if span.holds(nominal)), None)
        _plan_late(planner, [_Stretch(nominal, nominal, span)])
    else:
        _plan_prompt(planner, nominal, nominal)
    if planner.runs:
        return planner.plan(NOWHERE)
    assert job.spec.schedule.interval is not None
    following = max(now + job.spec.schedule.interval, planner.held_back_until or now)
    return planner.plan(planner.cursor(within_bounds(job.spec.schedule, following)))


def _plan_prompt(planner: "_Planner", first: datetime, last: datetime) -> None:
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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Late instants from `first` to `last` that were missed, or during all of which `span` was executing."""

    first: datetime
    last: datetime
    span: Span | None


def _stretches(planner: "_Planner", first: datetime, last: datetime) -> list[_Stretch]:
    """Cut the late instants where an execution begins or ends."""
    spans = sorted(planner.facts.executed, key=lambda span: span.start)
    found: list[_Stretch] = []
    instant: datetime | None = first
    while instant is not None and instant <= last:
        spans = [span for span in spans if span.end is None or span.end > instant]
        held = next((span for span in spans if span.holds(instant)), None)
        border = held.end if held else next((span.start for span in spans), None)
        end = planner.previous(border) if border is not None else None
        found.append(_Stretch(instant, last if end is None else min(end, last), held))
        instant = planner.next(found[-1].last)
    return found


def _plan_late(planner: "_Planner", stretches: list[_Stretch]) -> None:
    made_up = _to_make_up(planner, stretches)
    for stretch in stretches:
        if planner.used_up:
            return
        if stretch.span is not None:
            key = stretch.span.handle or stretch.span
            planner.skip(Reason.OVERLAP, stretch.first, stretch.last, blocking=stretch.span.handle, key=key)
            continue
        here = [instant for instant in made_up if stretch.first <= instant <= stretch.last]
        rest = planner.before(here[0], stretch.first) if here else stretch.last
        if rest is not None:
            planner.skip(Reason.MISSED, stretch.first, rest)
        for instant in here:
            planner.make_up(instant)


def _to_make_up(planner: "_Planner", stretches: Sequence[_Stretch]) -> list[datetime]:
    """Return the missed instants that run nevertheless, oldest first: the newest ones that are young enough (R-10)."""
    misfire = planner.job.spec.misfire
    wanted = {MisfirePolicy.SKIP: 0, MisfirePolicy.ONCE: 1, MisfirePolicy.ALL: misfire.limit}[misfire.policy]
    found: list[datetime] = []
    for stretch in reversed([stretch for stretch in stretches if stretch.span is None]):
        instant: datetime | None = stretch.last
        while instant is not None and len(found) < wanted:
            if misfire.max_age is not None and planner.late_by(instant) > misfire.max_age:
                return found[::-1]
            found.append(instant)
            instant = planner.before(instant, stretch.first)
    return found[::-1]


@dataclass(slots=True)
class _Waiting:
    """A stretch of refused instants that may still grow."""

    reason: Reason
    first: datetime
    last: datetime
    blocking: str | None
    key: object


@dataclass(slots=True)
class _Planner:
    """The plan as it grows: neighbours refused for the same reason become one row, planned runs count as active."""

    job: Job
    facts: FireFacts
    now: datetime
    steps: list[PlannedRun | PlannedSkip] = field(default_factory=list)
    planned: list[ActiveRun] = field(default_factory=list)
    waiting: _Waiting | None = None

    @property
    def active(self) -> list[ActiveRun]:
        return [*self.facts.active, *self.planned]

    @property
    def runs(self) -> bool:
        return bool(self.planned)

    @property
    def held_back_until(self) -> datetime | None:
        """Until when a job that keeps failing starts nothing by itself (DEC-007); the instant of `at` always runs."""
        spec = self.job.spec
        held = spec.on_repeated_failure is not None and spec.schedule.at is None
        return self.job.backing_off_until if held else None

    @property
    def used_up(self) -> bool:
        return self.runs and self.job.spec.schedule.run_once

    def first(self, since: datetime) -> datetime | None:
        return first_instant(self.job.spec.schedule, since=since, created_at=self.job.created_at)

    def next(self, after: datetime) -> datetime | None:
        return next_instant(self.job.spec.schedule, after=after, created_at=self.job.created_at)

    def previous(self, before: datetime) -> datetime | None:
        return previous_instant(self.job.spec.schedule, before=before, created_at=self.job.created_at)

    def before(self, instant: datetime, first: datetime) -> datetime | None:
        """Return the instant before `instant`, None before `first`."""
        if instant <= first:
            return None
        found = self.previous(instant)
        return found if found is not None and found >= first else None

    def last_before(self, until: datetime, first: datetime, last: datetime) -> datetime:
        """Return the last instant before `until`, from `first` to `last`, where `first` is before it."""
        if last < until or self.job.spec.schedule.follows_runs:
            return last
        return self.previous(until) or first

    def fires(self, instant: datetime) -> datetime:
        if self.job.spec.schedule.follows_runs:  # a clock step may have moved it
            return self.job.next_at or instant
        return fires_at(self.job.spec.schedule, instant, name=self.job.name, created_at=self.job.created_at)

    def late_by(self, instant: datetime) -> timedelta:
        return self.now - self.fires(instant)

    def last_fired(self, until: datetime) -> datetime | None:
        """Return the last instant that fires at or before `until`."""
        found = last_instant(self.job.spec.schedule, until=until, created_at=self.job.created_at)
        return self.previous(found) if found is not None and self.fires(found) > until else found

    def cursor(self, nominal: datetime | None) -> Cursor:
        if self.used_up:
            return NOWHERE
        return cursor_at(self.job.spec.schedule, nominal, name=self.job.name, created_at=self.job.created_at)

    def slot_key(self, instant: datetime) -> str:
        """Return what makes the fire unique within its job (R-05)."""
        follows = self.job.spec.schedule.follows_runs
        return f"#{self.job.fire_number + 1}" if follows else str(to_ms(instant))

    def run(self, instant: datetime, verdict: Go | After | Replace, *, made_up: bool = False) -> None:
        self._close()
        key = self.slot_key(instant)
        after_previous = isinstance(verdict, After) and verdict.predecessor_id in {run.id for run in self.planned[-1:]}
        late_by = self.late_by(instant)
        self.steps.append(PlannedRun(instant, key, verdict, late_by, made_up=made_up, after_previous=after_previous))
        self.planned.append(ActiveRun(planned_id(key), planned_handle(instant), Status.QUEUED))

    def make_up(self, instant: datetime) -> None:
        """Run a missed instant: the first is judged by overlap, each other one waits for the one before it."""
        if self.used_up:
            return
        if self.held_back_until is not None and self.now < self.held_back_until:
            self.skip(Reason.BACKING_OFF, instant, instant)
            return
        verdict = After(self.planned[-1].id) if self.planned else judge(self.job.spec.overlap, self.active)
        if isinstance(verdict, Refuse):
            self.refuse(verdict, instant, instant)
        else:
            self.run(instant, verdict, made_up=True)

    def refuse(self, verdict: Refuse, first: datetime, last: datetime) -> None:
        handle = verdict.blocking.handle
        self.skip(verdict.reason, first, last, blocking=handle, key=handle)

    def skip(
        self, reason: Reason, first: datetime, last: datetime, *, blocking: str | None = None, key: object = None
    ) -> None:
        if self.waiting is not None and (self.waiting.reason, self.waiting.key) == (reason, key):
            self.waiting.last = last
            return
        self._close()
        self.waiting = _Waiting(reason, first, last, blocking, key)

    def plan(self, cursor: Cursor) -> FirePlan:
        self._close()
        return FirePlan(tuple(self.steps), cursor.next_for, cursor.next_at)

    def _close(self) -> None:
        if self.waiting is None:
            return
        row, self.waiting = self.waiting, None
        one = row.first == row.last
        self.steps.append(
            PlannedSkip(
                reason=row.reason,
                scheduled_for=row.first,
                covers_to=None if one else row.last,
                count=1 if one else self._count(row.first, row.last),
                slot_key=self.slot_key(row.first),
                late_by=self.late_by(row.first),
                blocking=row.blocking,
            )
        )

    def _count(self, first: datetime, last: datetime) -> int | None:
        return count_instants(self.job.spec.schedule, first=first, last=last, created_at=self.job.created_at)
