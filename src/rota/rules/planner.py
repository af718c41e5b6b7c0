"""The plan of a fire as it grows: judged instants go in, rows in the order of their instants come out."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.model.clock import to_ms
from rota.model.records import Job
from rota.model.states import Reason, Status
from rota.rules.cursor import NOWHERE, Cursor, cursor_of
from rota.rules.instants import count_instants, fires_at, first_instant, last_come, next_instant, previous_instant
from rota.rules.lull import Lull
from rota.rules.overlap import ActiveRun, After, Go, Refuse, Replace, judge
from rota.rules.planned import (
    FireFacts,
    FirePlan,
    PlannedRun,
    PlannedSkip,
    past_when_created,
    planned_handle,
    planned_id,
)


@dataclass(slots=True)
class _Waiting:
    """A stretch of refused instants that may still grow."""

    reason: Reason
    first: datetime
    last: datetime
    blocking: str | None
    key: object
    quiet_until: datetime | None = None


@dataclass(slots=True)
class Planner:
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
    def grace(self) -> timedelta:
        grace = self.job.spec.misfire.grace
        return grace if self.before_creation else max(grace, self.facts.unseen)

    @property
    def before_creation(self) -> bool:
        """Whether the instant of an `at` job was past when this state first stored the job: it is not made up."""
        return past_when_created(self.job)

    @property
    def held_back_until(self) -> datetime | None:
        """Until when a job that keeps failing starts nothing by itself (DEC-007); the instant of `at` always runs."""
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
        return max(self.now - self.fires(instant), timedelta())

    def last_fired(self, until: datetime) -> datetime | None:
        """Return the last instant that fires at or before `until`."""
        found = last_come(self.job.spec.schedule, until=until, created_at=self.job.created_at)
        return self.previous(found) if found is not None and self.fires(found) > until else found

    def cursor(self, nominal: datetime | None) -> Cursor:
        if self.used_up:
            return NOWHERE
        return cursor_of(self.job, nominal)

    def slot_key(self, instant: datetime) -> str:
        """Return what makes the fire unique within its job (R-05)."""
        follows = self.job.spec.schedule.follows_runs
        return f"#{self.job.fire_number + 1}" if follows else str(to_ms(instant))

    def run(
        self,
        instant: datetime,
        verdict: Go | After | Replace,
        *,
        made_up: bool = False,
        quiet_until: datetime | None = None,
    ) -> None:
        self._close()
        key = self.slot_key(instant)
        after_previous = isinstance(verdict, After) and verdict.predecessor_id in {run.id for run in self.planned[-1:]}
        late_by, unseen = self.late_by(instant), self.facts.unseen
        self.steps.append(PlannedRun(instant, key, verdict, late_by, made_up, after_previous, unseen, quiet_until))
        self.planned.append(ActiveRun(planned_id(key), planned_handle(instant), Status.QUEUED))

    def make_up(self, instant: datetime) -> None:
        """Run a missed instant: the first is judged by overlap, each other one waits for the one before it."""
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
        """Run an instant at the end of quiet hours: however late that is, only overlap judges it (R-17)."""
        verdict = judge(self.job.spec.overlap, self.active)
        if self.held_back:
            self.skip(Reason.BACKING_OFF, instant, instant)
        elif isinstance(verdict, Refuse):
            self.refuse(verdict, instant, instant)
        else:
            self.run(instant, verdict, quiet_until=until)

    def hush(self, lull: Lull, first: datetime, last: datetime | None) -> None:
        """Skip the instants of a lull up to `last`; each time of quiet hours has a row of its own."""
        if last is not None and lull.reason is not None:
            until = lull.fires if lull.reason is Reason.QUIET_HOURS else None
            self.skip(lull.reason, first, last, key=until, quiet_until=until)

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
                unseen=self.facts.unseen,
                quiet_until=row.quiet_until,
            )
        )

    def _count(self, first: datetime, last: datetime) -> int | None:
        return count_instants(self.job.spec.schedule, first=first, last=last, created_at=self.job.created_at)
