"""Planning of a fire: due, late, missed and overlapping instants, and the row of each."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from rota.model.clock import iso, to_ms
from rota.model.records import Job
from rota.model.spec import MisfirePolicy
from rota.model.states import Reason, Status
from rota.rules.admission import ActiveRun, After, Allow, Refuse, Replace, judge
from rota.rules.schedule import instants
from rota.rules.schedule.blackouts import Blackout, blackout_at, defers, has_blackouts
from rota.rules.schedule.cursor import NOWHERE, Cursor, cursor_of


class ExecutionSpan(Struct, frozen=True):
    """An execution of the job; `end` None while it runs, `handle` names its run if known."""

    start: datetime
    end: datetime | None
    handle: str | None = None

    def holds(self, instant: datetime) -> bool:
        """Return whether the execution ran at `instant`."""
        return self.start <= instant and (self.end is None or instant < self.end)


class FireFacts(Struct, frozen=True):
    """The job's unfinished runs, oldest first, and its executions since `next_for`.

    `executed` excludes the executions that ended process_restarted or worker_lost. `unseen`: the time between two
    ticks; instants in it are not late.
    """

    active: tuple[ActiveRun, ...] = ()
    executed: tuple[ExecutionSpan, ...] = ()
    unseen: timedelta = timedelta()


class PlannedRun(Struct):
    """An instant that runs. `made_up`: by misfire once or all; `after_previous`: waits for the previous planned run.

    A verdict names a run of the same plan by `planned_id(slot_key)`. `quiet_until`: the end of its quiet hours.
    """

    scheduled_for: datetime
    slot_key: str
    verdict: Allow | After | Replace
    late_by: timedelta
    made_up: bool = False
    after_previous: bool = False
    unseen: timedelta = timedelta()
    quiet_until: datetime | None = None


class PlannedSkip(Struct, frozen=True):
    """An instant, or consecutive instants up to `covers_to`, that do not run for one reason.

    `count` is None above 10,000; `blocking` names the run in the way; `late_by` is that of the first instant;
    `quiet_until` the end of their quiet hours.
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


class FirePlan(Struct):
    """The rows to insert, in the order of their instants, and the next cursor."""

    steps: tuple[PlannedRun | PlannedSkip, ...]
    next_for: datetime | None
    next_at: datetime | None


def past_when_created(job: Job) -> bool:
    """Return whether the instant of an `at` job was past when the job was first stored; it is not made up then."""
    at = job.spec.schedule.at
    return at is not None and at < job.created_at


def planned_id(slot_key: str) -> str:
    """Return the placeholder of a planned run that has no id yet."""
    return f"planned:{slot_key}"


def verdict_among(step: PlannedRun, ids: Mapping[str, str]) -> Allow | After | Replace:
    """Return the verdict with the ids of inserted runs of the same plan, given by `planned_id` in their order."""
    if step.after_previous and ids:
        return After(list(ids.values())[-1])
    if isinstance(step.verdict, After):
        return After(ids.get(step.verdict.predecessor_id, step.verdict.predecessor_id))
    if isinstance(step.verdict, Replace):
        return Replace(tuple(ids.get(run_id, run_id) for run_id in step.verdict.run_ids))
    return step.verdict


def planned_handle(instant: datetime) -> str:
    """Return the name of a planned run that has no number yet."""
    return f"the run of {iso(instant)}"


def slot_key(job: Job, instant: datetime) -> str:
    """Return the key that is unique among the fires of a job."""
    return f"#{job.fire_number + 1}" if job.spec.schedule.follows_runs else str(to_ms(instant))


def plan_skip(
    job: Job,
    reason: Reason,
    first: datetime,
    last: datetime,
    *,
    late_by: timedelta,
    blocking: str | None = None,
    unseen: timedelta = timedelta(),
    quiet_until: datetime | None = None,
) -> PlannedSkip:
    """Return the one row of the instants from `first` to `last`, counted."""
    single, schedule = first == last, job.spec.schedule
    count = 1 if single else instants.count_instants(schedule, first=first, last=last, created_at=job.created_at)
    key, covers_to = slot_key(job, first), None if single else last
    return PlannedSkip(reason, first, covers_to, count, key, late_by, blocking, unseen, quiet_until)


def plan_fast_path(job: Job, facts: FireFacts, *, now: datetime) -> FirePlan | None:
    """Return the plan of one punctual instant without obstacles, None for any other fire."""
    instant, fires, spec = job.next_for, job.next_at, job.spec
    schedule = spec.schedule
    if instant is None or fires is None or fires > now or schedule.run_once or job.backing_off_until is not None:
        return None
    if past_when_created(job):
        return None
    late_by = now - fires
    if (late_by and late_by > max(spec.misfire.grace, facts.unseen)) or has_blackouts(schedule):
        return None
    verdict = judge(spec.overlap, facts.active)
    if not isinstance(verdict, Allow):
        return None
    cursor = NOWHERE if schedule.follows_runs else _cursor(job, instant, now=now)  # a followed run sets it at its end
    if cursor is None:
        return None
    run = PlannedRun(instant, slot_key(job, instant), verdict, late_by, unseen=facts.unseen)
    return FirePlan((run,), cursor.next_for, cursor.next_at)


def _cursor(job: Job, instant: datetime, *, now: datetime) -> Cursor | None:
    """Return the cursor after `instant`; None if more than this one is due, or it is none."""
    schedule, created_at = job.spec.schedule, job.created_at
    if instants.first_instant(schedule, since=instant, created_at=created_at) != instant:
        return None
    following = instants.next_instant(schedule, after=instant, created_at=created_at)
    return None if following is not None and following <= now else cursor_of(job, following)


class _Waiting(Struct):
    """Consecutive refused instants that may still grow."""

    reason: Reason
    first: datetime
    last: datetime
    blocking: str | None
    key: object
    quiet_until: datetime | None = None


class Planner(Struct):
    """A plan under construction. Neighbours with the same refusal become one row; planned runs count as active."""

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
    def grace(self) -> timedelta:
        grace = self.job.spec.misfire.grace
        return grace if past_when_created(self.job) else max(grace, self.facts.unseen)

    @property
    def held_back_until(self) -> datetime | None:
        """The end of the back-off of a repeatedly failing job; the instant of `at` always runs."""
        spec = self.job.spec
        held = spec.on_repeated_failure is not None and spec.schedule.at is None
        return self.job.backing_off_until if held else None

    @property
    def held_back(self) -> bool:
        return self.held_back_until is not None and self.now < self.held_back_until

    @property
    def used_up(self) -> bool:
        return self.runs and self.job.spec.schedule.run_once

    def first(self, since: datetime) -> datetime | None:
        return instants.first_instant(self.job.spec.schedule, since=since, created_at=self.job.created_at)

    def next(self, after: datetime) -> datetime | None:
        return instants.next_instant(self.job.spec.schedule, after=after, created_at=self.job.created_at)

    def previous(self, before: datetime) -> datetime | None:
        return instants.previous_instant(self.job.spec.schedule, before=before, created_at=self.job.created_at)

    def before(self, instant: datetime, first: datetime) -> datetime | None:
        """Return the instant before `instant`, None before `first`."""
        previous = self.previous(instant) if instant > first else None
        return previous if previous is not None and previous >= first else None

    def last_before(self, until: datetime, first: datetime, last: datetime) -> datetime:
        """Return the last instant before `until`, from `first` to `last`; `first` is before it."""
        if last < until or self.job.spec.schedule.follows_runs:
            return last
        return self.previous(until) or first

    def fires(self, instant: datetime) -> datetime:
        if self.job.spec.schedule.follows_runs:  # a clock step may have moved it
            return self.job.next_at or instant
        return instants.fires_at(self.job.spec.schedule, instant, name=self.job.name, created_at=self.job.created_at)

    def late_by(self, instant: datetime) -> timedelta:
        return max(self.now - self.fires(instant), timedelta())

    def last_fired(self, until: datetime) -> datetime | None:
        """Return the last instant that fires at or before `until`."""
        last = instants.last_come(self.job.spec.schedule, until=until, created_at=self.job.created_at)
        return self.previous(last) if last is not None and self.fires(last) > until else last

    def cursor(self, nominal: datetime | None) -> Cursor:
        return NOWHERE if self.used_up else cursor_of(self.job, nominal)

    def run(
        self,
        instant: datetime,
        verdict: Allow | After | Replace,
        *,
        made_up: bool = False,
        quiet_until: datetime | None = None,
    ) -> None:
        self._close()
        key = slot_key(self.job, instant)
        after_previous = isinstance(verdict, After) and verdict.predecessor_id in {run.id for run in self.planned[-1:]}
        late_by, unseen = self.late_by(instant), self.facts.unseen
        self.steps.append(PlannedRun(instant, key, verdict, late_by, made_up, after_previous, unseen, quiet_until))
        self.planned.append(ActiveRun(planned_id(key), planned_handle(instant), Status.QUEUED))

    def make_up(self, instant: datetime) -> None:
        """Run a missed instant: overlap judges the first, each other one waits for the previous one."""
        if self.used_up:
            return
        if self.held_back:
            self.skip(Reason.BACKING_OFF, instant, instant)
            return
        waits = any(isinstance(step, PlannedRun) and step.made_up for step in self.steps)
        verdict = After(self.planned[-1].id) if waits else judge(self.job.spec.overlap, self.active)
        if isinstance(verdict, Refuse):
            self.refuse(verdict, instant, instant)
        else:
            self.run(instant, verdict, made_up=True)

    def defer(self, instant: datetime, *, until: datetime | None) -> None:
        """Run an instant at the end of quiet hours, however late that is; overlap still judges it."""
        verdict = judge(self.job.spec.overlap, self.active)
        if self.held_back:
            self.skip(Reason.BACKING_OFF, instant, instant)
        elif isinstance(verdict, Refuse):
            self.refuse(verdict, instant, instant)
        else:
            self.run(instant, verdict, quiet_until=until)

    def skip_blackout(self, blackout: Blackout, first: datetime, last: datetime | None) -> None:
        """Skip the instants of a blackout up to `last`; each period of quiet hours has its own row."""
        if last is not None and blackout.reason is not None:
            until = blackout.fires if blackout.reason is Reason.QUIET_HOURS else None
            self.skip(blackout.reason, first, last, key=until, quiet_until=until)

    def refuse(self, verdict: Refuse, first: datetime, last: datetime) -> None:
        handle = verdict.blocking.handle
        self.skip(verdict.reason, first, last, blocking=handle, key=handle)

    def skip(
        self,
        reason: Reason,
        first: datetime,
        last: datetime,
        *,
        blocking: str | None = None,
        key: object = None,
        quiet_until: datetime | None = None,
    ) -> None:
        if self.waiting is not None and (self.waiting.reason, self.waiting.key) == (reason, key):
            self.waiting.last = last
            return
        self._close()
        self.waiting = _Waiting(reason, first, last, blocking, key, quiet_until)

    def plan(self, cursor: Cursor) -> FirePlan:
        self._close()
        return FirePlan(tuple(self.steps), cursor.next_for, cursor.next_at)

    def _close(self) -> None:
        if self.waiting is None:
            return
        row, self.waiting = self.waiting, None
        self.steps.append(
            plan_skip(
                self.job,
                row.reason,
                row.first,
                row.last,
                late_by=self.late_by(row.first),
                blocking=row.blocking,
                unseen=self.facts.unseen,
                quiet_until=row.quiet_until,
            )
        )


_INSTANT = timedelta(microseconds=1)


class _Stretch(Struct, frozen=True):
    """Instants from `first` to `last` that share one fate: in a blackout, punctual, or late.

    Late ones were missed, or `span` executed during all of them.
    """

    first: datetime
    last: datetime
    late: bool = False
    span: ExecutionSpan | None = None
    blackout: Blackout | None = None


def plan_fire(job: Job, facts: FireFacts, *, now: datetime) -> FirePlan:
    """Return the plan of all instants of `job` that are due at `now`, each exactly once."""
    if job.next_for is None or not job.schedules:
        return FirePlan((), job.next_for, job.next_at)
    return plan_fast_path(job, facts, now=now) or plan_in_full(Planner(job, facts, now), job.next_for)


def plan_in_full(planner: Planner, next_for: datetime) -> FirePlan:
    """Return the plan of all due instants in the general case."""
    follows = planner.job.spec.schedule.follows_runs
    return _plan_following(planner, next_for) if follows else _plan_instants(planner, next_for)


def plan_close(job: Job, *, now: datetime) -> FirePlan:
    """Return the skips of the instants that wait for the end of quiet hours while their definition ends now.

    None of them runs, even if quiet hours defer: the next definition decides about later instants.
    """
    planner = Planner(job, FireFacts(), now)
    if job.next_for is None or job.spec.schedule.follows_runs:
        return _close_following(planner, job.next_for)
    last = instants.last_instant(job.spec.schedule, until=now, created_at=job.created_at) or job.next_for
    for stretch in _parts(planner, job.next_for, last, late=None):
        if stretch.blackout is not None:
            planner.skip_blackout(stretch.blackout, stretch.first, stretch.last)
    return planner.plan(planner.cursor(planner.next(last)))


def _close_following(planner: Planner, nominal: datetime | None) -> FirePlan:
    blackout = None if nominal is None else blackout_at(planner.job.spec.schedule, nominal)
    if nominal is None or blackout is None or blackout.reason is None:
        return planner.plan(Cursor(nominal, planner.job.next_at))
    planner.skip_blackout(blackout, nominal, nominal)
    return planner.plan(_after_blackout(planner, blackout))


def _plan_instants(planner: Planner, next_for: datetime) -> FirePlan:
    """Plan cron, at and fixed intervals. Late instants come first: jitter never reaches the next instant."""
    first, last = planner.first(next_for), planner.last_fired(planner.now)
    if first is None or last is None or last < first:
        return planner.plan(planner.cursor(first))
    late = planner.last_fired(planner.now - planner.grace - _INSTANT)
    _plan_stretches(planner, list(_parts(planner, first, last, late=late)))
    return planner.plan(planner.cursor(planner.next(last)))


def _parts(planner: Planner, first: datetime, last: datetime, *, late: datetime | None) -> Iterator[_Stretch]:
    """Split the due instants at the borders of blackouts, and at the end of the late ones."""
    schedule = planner.job.spec.schedule
    may_skip = has_blackouts(schedule)
    instant: datetime | None = first
    while instant is not None and instant <= last:
        blackout = blackout_at(schedule, instant) if may_skip else Blackout(None, None)
        end = last if blackout.until is None or last < blackout.until else planner.previous(blackout.until) or instant
        if blackout.reason is None:
            yield from _open_parts(planner, instant, end, late=late)
        else:
            yield _Stretch(instant, end, blackout=blackout)
        instant = planner.next(end)


def _open_parts(planner: Planner, first: datetime, last: datetime, *, late: datetime | None) -> Iterator[_Stretch]:
    prompt: datetime | None = first
    if late is not None and late >= first:
        yield from _late_parts(planner, first, min(late, last))
        prompt = planner.next(min(late, last))
    if prompt is not None and prompt <= last:
        yield _Stretch(prompt, last)


def _plan_following(planner: Planner, nominal: datetime) -> FirePlan:
    """Plan the one instant of a completion or start anchor; a run sets the cursor at the end of its chain."""
    job, now = planner.job, planner.now
    blackout = blackout_at(job.spec.schedule, nominal)
    fires = job.next_at or nominal
    fires = fires if blackout.fires is None else max(fires, blackout.fires)
    if fires > now:
        return planner.plan(Cursor(nominal, fires))
    if blackout.reason is not None:
        _plan_stretches(planner, [_Stretch(nominal, nominal, blackout=blackout)])
    else:
        late = now > fires + planner.grace
        span = next((span for span in planner.facts.executed if span.holds(nominal)), None) if late else None
        _plan_stretches(planner, [_Stretch(nominal, nominal, late=late, span=span)])
    if planner.runs:
        return planner.plan(NOWHERE)
    if blackout.reason is not None and not (
        blackout.reason is Reason.QUIET_HOURS and defers(planner.job.spec.schedule)
    ):
        return planner.plan(_after_blackout(planner, blackout))
    if job.interval is None:
        return planner.plan(NOWHERE)  # never in this mode: the next mode plans it
    following = max(now + job.interval, planner.held_back_until or now)
    return planner.plan(planner.cursor(instants.within_bounds(job.spec.schedule, following)))


def _after_blackout(planner: Planner, blackout: Blackout) -> Cursor:
    """Return the cursor of a completion or start anchor after a skipped instant, as after a pause."""
    job = planner.job
    end = blackout.fires if blackout.reason is Reason.QUIET_HOURS else blackout.until
    if job.interval is None or end is None:
        return NOWHERE
    following = max(end + job.interval, planner.held_back_until or end)
    return planner.cursor(instants.within_bounds(job.spec.schedule, following))


def _plan_prompt(planner: Planner, first: datetime, last: datetime) -> None:
    """Plan the punctual instants; overlap judges each one that no back-off holds back."""
    instant: datetime | None = first
    until = planner.held_back_until
    if until is not None and first < until:
        held = planner.last_before(until, first, last)
        planner.skip(Reason.BACKING_OFF, first, held)
        instant = None if held == last else planner.next(held)
    while instant is not None and instant <= last and not planner.used_up:
        verdict = judge(planner.job.spec.overlap, planner.active)
        if isinstance(verdict, Refuse):  # the others are refused for the same reason
            planner.refuse(verdict, instant, last)
            return
        planner.run(instant, verdict)
        instant = planner.next(instant)


def _late_parts(planner: Planner, first: datetime, last: datetime) -> list[_Stretch]:
    """Split the late instants where an execution begins or ends."""
    spans = sorted(planner.facts.executed, key=lambda span: span.start)
    stretches: list[_Stretch] = []
    instant: datetime | None = first
    while instant is not None and instant <= last:
        spans = [span for span in spans if span.end is None or span.end > instant]
        held = next((span for span in spans if span.holds(instant)), None)
        border = held.end if held else next((span.start for span in spans), None)
        end = planner.previous(border) if border is not None else None
        stretches.append(_Stretch(instant, last if end is None else min(end, last), late=True, span=held))
        instant = planner.next(stretches[-1].last)
    return stretches


def _plan_stretches(planner: Planner, stretches: list[_Stretch]) -> None:
    made_up = _to_make_up(planner, stretches)
    deferred = None
    if defers(planner.job.spec.schedule):  # the last instant of the last quiet hours runs at their end
        quiet = [each for each in stretches if each.blackout and each.blackout.reason is Reason.QUIET_HOURS]
        deferred = quiet[-1] if quiet else None
    for stretch in stretches:
        if planner.used_up:
            return
        if stretch.blackout is not None:
            rest = planner.before(stretch.last, stretch.first) if stretch is deferred else stretch.last
            planner.skip_blackout(stretch.blackout, stretch.first, rest)
            if stretch is deferred:
                planner.defer(stretch.last, until=stretch.blackout.fires)
        elif stretch.late:
            _plan_late(planner, stretch, made_up)
        else:
            _plan_prompt(planner, stretch.first, stretch.last)


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
    """Return the missed instants that are made up, oldest first: the newest ones within `max_age`.

    With `once`, a punctual instant replaces all missed ones.
    """
    misfire = planner.job.spec.misfire
    if past_when_created(planner.job) or (
        misfire.policy is MisfirePolicy.ONCE and _runs_punctually(planner, stretches)
    ):
        return []
    wanted = {MisfirePolicy.SKIP: 0, MisfirePolicy.ONCE: 1, MisfirePolicy.ALL: misfire.limit}[misfire.policy]
    chosen: list[datetime] = []
    for stretch in reversed([stretch for stretch in stretches if stretch.late and stretch.span is None]):
        instant: datetime | None = stretch.last
        while instant is not None and len(chosen) < wanted:
            if misfire.max_age is not None and planner.late_by(instant) > misfire.max_age:
                return chosen[::-1]
            chosen.append(instant)
            instant = planner.before(instant, stretch.first)
    return chosen[::-1]


def _runs_punctually(planner: Planner, stretches: Sequence[_Stretch]) -> bool:
    """Return whether an instant is due, punctual, in no blackout and not held back."""
    until = planner.held_back_until
    prompt = (stretch for stretch in stretches if not stretch.late and stretch.blackout is None)
    return any(until is None or stretch.last >= until for stretch in prompt)
