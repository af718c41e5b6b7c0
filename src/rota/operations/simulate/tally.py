"""Counts and gauges of a simulation."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import accumulate

from msgspec import Struct, field

from rota.model.budgets import Window
from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.spec import Mode, QuietHours
from rota.model.states import Reason, Status, WaitingFor
from rota.operations.simulate.model import COMPLETED, Accounts, SimJob, SimRun
from rota.operations.simulate.state import RunDuration
from rota.rules.schedule.instants import COUNTED, instants_between
from rota.rules.schedule.plan import PlannedSkip

PARTS = 480
"""The number of equal parts of a span in a drawing."""


class Gauge(Struct):
    """A level between `since` and `until`, in milliseconds.

    A change counts for the rest of its part, and as a step for all later parts, so each change costs the same.
    """

    since: int
    until: int
    level: int = 0
    _rests: list[float] = field(default_factory=lambda: [0.0] * (PARTS + 1))
    _steps: list[int] = field(default_factory=lambda: [0] * (PARTS + 2))
    _scale: float = 0.0

    def __post_init__(self) -> None:
        self._scale = PARTS / (self.until - self.since)

    def note(self, level: int, at: int) -> None:
        """Set the level from `at` on."""
        change = level - self.level
        if not change:
            return
        self.level = level
        place = (at - self.since) * self._scale
        part = int(place)
        self._rests[part] += change * (part + 1 - place)
        self._steps[part + 1] += change

    def close(self) -> None:
        """Count up to the end of the span."""
        self.note(0, self.until)

    @property
    def parts(self) -> tuple[float, ...]:
        """The mean level in each part."""
        steps = accumulate(self._steps[:PARTS])
        return tuple(max(step + rest, 0.0) for step, rest in zip(steps, self._rests[:PARTS], strict=True))


HOUR_MS = 3_600_000
SECOND_MS = 1000
_INSTANT = timedelta(microseconds=1)


class ModeFrom(Struct, frozen=True):
    """A mode and its start."""

    at: datetime
    mode: Mode


class JobReport(Struct):
    """The results of one job. `hours`: its instants by hour; `parts`: by equal part of the span, for drawings.

    `make_report` sets the fields from `takes` on.
    """

    name: str
    hours: list[int]
    skipped_hours: list[int]
    fires: int = 0
    runs: int = 0
    retries: int = 0
    completed: int = 0
    other_ends: Counter[Status] = field(default_factory=Counter)
    skipped: Counter[Reason] = field(default_factory=Counter)
    waits: Counter[WaitingFor] = field(default_factory=Counter)
    running_ms: int = 0
    longest_wait_ms: int = 0
    modes: list[ModeFrom] = field(default_factory=list)
    parts: list[int] = field(default_factory=lambda: [0] * PARTS)
    skipped_parts: list[int] = field(default_factory=lambda: [0] * PARTS)
    takes: RunDuration = field(default_factory=lambda: RunDuration(timedelta(), "assumed"))
    is_group: bool = False
    is_poll: bool = False
    paused: bool = False
    unfinished: int = 0
    calls: int = 0
    cost: dict[str, int] = field(default_factory=dict)
    quiet: QuietHours | None = None

    @property
    def ends(self) -> dict[str, int]:
        """The number of finished runs by status."""
        counts = {Status.COMPLETED: self.completed, **self.other_ends}
        return {status.value: counts[status] for status in Status if counts.get(status)}

    @property
    def running(self) -> timedelta:
        """The sum of all executions."""
        return self.running_ms * MILLISECOND

    @property
    def longest_wait(self) -> timedelta:
        """The longest time that a claimable run waited."""
        return self.longest_wait_ms * MILLISECOND

    @property
    def busiest(self) -> int:
        """The index of the first hour with the most instants."""
        return max(range(len(self.hours)), key=lambda index: self.hours[index])


class CollisionReport(Struct):
    """Jobs that fire in the same second: the first time, and how often."""

    at: datetime
    jobs: tuple[str, ...]
    times: int = 0


class _JobReports(dict[str, JobReport]):
    def __init__(self, hours: int) -> None:
        super().__init__()
        self._hours = hours

    def __missing__(self, name: str) -> JobReport:
        report = self[name] = JobReport(name, [0] * self._hours, [0] * self._hours)
        return report


class Tally:
    """The observer that counts. Times are milliseconds, for speed."""

    def __init__(self, since: datetime, until: datetime, *, hours_from: datetime) -> None:
        self.since, self.until = to_ms(since), to_ms(until)
        self.hours_from = to_ms(hours_from)
        self.hour_count = -(-(self.until - self.hours_from) // HOUR_MS)
        self.jobs = _JobReports(self.hour_count)
        self.collisions: dict[frozenset[str], CollisionReport] = {}
        self.collided = 0
        self.slot_parts = [0.0] * PARTS
        self.pool_parts: dict[str, list[float]] = {}
        self.pool_waits: Counter[str] = Counter()
        self.longest_wait_ms = 0
        self.call_hours = [0] * self.hour_count
        self.accounts: dict[str, Gauge] = {}
        self._windows: dict[str, Window] = {}
        self._at = self.since
        self._hour = (self.since - self.hours_from) // HOUR_MS
        self._part = 0
        self._scale = PARTS / (self.until - self.since)
        self._second = -1
        self._together: set[str] = set()

    def look(self, now: datetime) -> None:
        """Set the time of the following events."""
        self._at = at = to_ms(now)
        self._hour = (at - self.hours_from) // HOUR_MS
        self._part = (at - self.since) * PARTS // (self.until - self.since)

    def fired(self, run: SimRun) -> None:
        """Count an instant that became a run."""
        name = run.sim_job.job.name
        tally = self.jobs[name]
        tally.fires += 1
        tally.hours[self._hour] += 1
        tally.parts[self._part] += 1
        second = self._at // SECOND_MS
        if second != self._second:
            if len(self._together) > 1:
                self._note_collision()
            self._together = {name}
            self._second = second
        else:
            self._together.add(name)

    def skipped(self, sim_job: SimJob, row: PlannedSkip) -> None:
        """Count skipped instants, each in its own hour; instants before the span count in the first hour."""
        tally = self.jobs[sim_job.name]
        count = COUNTED + 1 if row.count is None else row.count
        tally.fires += count
        tally.skipped[row.reason] += count
        for instant in _instants(sim_job, row):
            at = min(max(to_ms(instant), self.since), self.until - 1)
            tally.hours[(at - self.hours_from) // HOUR_MS] += 1
            tally.skipped_hours[(at - self.hours_from) // HOUR_MS] += 1
            tally.skipped_parts[(at - self.since) * PARTS // (self.until - self.since)] += 1

    def ended(self, run: SimRun) -> None:
        """Count a finished run."""
        tally = self.jobs[run.sim_job.job.name]
        if run.status is COMPLETED:
            tally.completed += 1
        else:
            tally.other_ends[run.status] += 1
            if run.status is Status.SKIPPED and run.reason is not None:
                tally.skipped[run.reason] += 1
                tally.skipped_parts[self._part] += 1
        if run.started_at is not None:
            self._note_execution(tally, run, until=self._at)

    def _note_execution(self, tally: JobReport, run: SimRun, *, until: int) -> None:
        """Count the wait of a run in the queue, and its use of slot and pools."""
        if run.started_at is None or run.sim_job.is_group:
            return
        started = to_ms(run.started_at)
        tally.runs += 1
        tally.retries += run.attempt > 1
        tally.running_ms += until - started
        if run.sim_job.calls:
            self.call_hours[max(0, started - self.hours_from) // HOUR_MS] += run.sim_job.calls
        if run.ready_at is not None and run.ready_at != run.started_at:
            waited = started - to_ms(run.ready_at)
            tally.longest_wait_ms = max(tally.longest_wait_ms, waited)
            self.longest_wait_ms = max(self.longest_wait_ms, waited)
            for draw in run.draws:
                self.pool_waits[draw.pool] = max(self.pool_waits[draw.pool], waited)
        self._spread(self.slot_parts, 1, started, until)
        for draw in run.draws:
            if draw.pool not in self.pool_parts:
                self.pool_parts[draw.pool] = [0.0] * PARTS
            self._spread(self.pool_parts[draw.pool], draw.cost, started, until)

    def _spread(self, parts: list[float], level: int, first: int, last: int) -> None:
        """Add a level to the parts between two times."""
        begin, end = (first - self.since) * self._scale, (last - self.since) * self._scale
        if begin < 0:
            begin = 0.0
        index = int(begin)
        while end > index + 1:
            parts[index] += level * (index + 1 - begin)
            index += 1
            begin = index
        parts[index if index < PARTS else PARTS - 1] += level * (end - begin)

    def waits(self, run: SimRun) -> None:
        """Count a wait for a poll or a budget."""
        if run.waiting_for is not None:
            self.jobs[run.sim_job.job.name].waits[run.waiting_for] += 1

    def mode_changed(self, sim_job: SimJob) -> None:
        """Note the new mode of a job."""
        if sim_job.job.mode is not None:
            self.jobs[sim_job.name].modes.append(ModeFrom(from_ms(self._at), sim_job.job.mode))

    def charged(self, accounts: Accounts) -> None:
        """Note the usage of budgets; the usage of a window ends with it."""
        for name, book in accounts.books.items():
            filled = book.windows[-1]
            gauge = self.accounts.get(name)
            if gauge is None:
                gauge = self.accounts[name] = Gauge(self.since, self.until)
            before = self._windows.setdefault(name, filled.window)
            if before is not filled.window:
                gauge.note(0, to_ms(before.until))
                self._windows[name] = filled.window
            gauge.note(filled.used, self._at)

    def close(self, unfinished: Iterable[SimRun]) -> None:
        """Count up to the end of the span, running runs included."""
        for run in unfinished:
            self._note_execution(self.jobs[run.sim_job.job.name], run, until=self.until)
        if len(self._together) > 1:
            self._note_collision()
        for name, window in self._windows.items():
            if to_ms(window.until) < self.until:
                self.accounts[name].note(0, to_ms(window.until))
        for gauge in self.accounts.values():
            gauge.close()
        for job in self.jobs.values():
            job.skipped, job.waits = Counter(dict(job.skipped.most_common())), Counter(dict(job.waits.most_common()))

    def _note_collision(self) -> None:
        self.collided += 1
        key = frozenset(self._together)
        if key not in self.collisions:
            self.collisions[key] = CollisionReport(from_ms(self._second * SECOND_MS), tuple(sorted(key)))
        self.collisions[key].times += 1


def _instants(sim_job: SimJob, row: PlannedSkip) -> list[datetime]:
    """Return the instants of a row; the first one alone if the row does not count them."""
    schedule = sim_job.job.spec.schedule
    if row.covers_to is None or row.count is None or schedule.follows_runs:
        return [row.scheduled_for]
    created_at, until = sim_job.job.created_at, row.covers_to + _INSTANT
    return list(instants_between(schedule, since=row.scheduled_for, until=until, created_at=created_at))
