"""Counts and gauges of a simulation."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

from rota.model.budgets import Window
from rota.model.clock import to_ms
from rota.model.spec import Mode
from rota.model.states import Reason, Status, WaitingFor
from rota.operations.simulate.model import COMPLETED, Accounts, PlayedJob, PlayedRun, Skipped
from rota.rules.schedule.instants import COUNTED, instants_between

PARTS = 480
"""Into how many equal parts a span is cut for a drawing."""


@dataclass(slots=True)
class Gauge:
    """A level between `since` and `until`, in milliseconds; it counts as full from `capacity` on.

    A change counts for the rest of its part, and as a step for all parts behind it: so each costs the same.
    """

    capacity: int
    since: int
    until: int
    level: int = 0
    peak: int = 0
    full_for: int = 0
    _full_since: int | None = None
    _rests: list[float] = field(default_factory=lambda: [0.0] * (PARTS + 1))
    _steps: list[int] = field(default_factory=lambda: [0] * (PARTS + 2))
    _scale: float = field(init=False)

    def __post_init__(self) -> None:
        self._scale = PARTS / (self.until - self.since)

    def note(self, level: int, at: int) -> None:
        """Note that the level is another one from `at` on."""
        change = level - self.level
        if not change:
            return
        self.level = level
        place = (at - self.since) * self._scale
        part = int(place)
        self._rests[part] += change * (part + 1 - place)
        self._steps[part + 1] += change
        if level > self.peak:
            self.peak = level
        if level >= self.capacity:
            if self._full_since is None:
                self._full_since = at
        elif self._full_since is not None:
            self.full_for += at - self._full_since
            self._full_since = None

    def close(self) -> None:
        """Count up to the end of the span."""
        self.note(0, self.until)

    @property
    def parts(self) -> tuple[float, ...]:
        """The mean level in each part."""
        steps = accumulate(self._steps[:PARTS])
        return tuple(max(step + rest, 0.0) for step, rest in zip(steps, self._rests[:PARTS], strict=True))

    @property
    def share_full(self) -> float:
        """The share of the time in which nothing more had room."""
        return self.full_for / (self.until - self.since)

    @property
    def mean(self) -> float:
        """The level that it had on average."""
        return sum(self.parts) / PARTS


HOUR_MS = 3_600_000
SECOND_MS = 1000
MOMENT = timedelta(microseconds=1)


@dataclass(slots=True)
class JobTally:
    """What became of one job: instants, runs and time; `parts` cuts the span for a drawing."""

    hours: list[int]
    skipped_hours: list[int]
    fires: int = 0
    runs: int = 0
    retries: int = 0
    completed: int = 0
    ends: Counter[Status] = field(default_factory=Counter)
    skipped: Counter[Reason] = field(default_factory=Counter)
    running_ms: int = 0
    longest_wait_ms: int = 0
    waits: Counter[WaitingFor] = field(default_factory=Counter)
    modes: list[tuple[int, Mode]] = field(default_factory=list)
    parts: list[int] = field(default_factory=lambda: [0] * PARTS)
    skipped_parts: list[int] = field(default_factory=lambda: [0] * PARTS)


@dataclass(slots=True)
class Collision:
    """Jobs that fired in the same second: when first, and how often."""

    first: int
    times: int = 0


class _Tallies(dict[str, JobTally]):
    """The tallies by job, made when a job is first met."""

    def __init__(self, hours: int) -> None:
        super().__init__()
        self._hours = hours

    def __missing__(self, name: str) -> JobTally:
        made = self[name] = JobTally([0] * self._hours, [0] * self._hours)
        return made


class Tally:
    """Looks on and counts. Instants are milliseconds here: a long play asks for them often."""

    def __init__(self, since: datetime, until: datetime, *, hours_from: datetime) -> None:
        self.since, self.until = to_ms(since), to_ms(until)
        self.hours_from = to_ms(hours_from)
        self.hour_count = -(-(self.until - self.hours_from) // HOUR_MS)
        self.jobs = _Tallies(self.hour_count)
        self.collisions: dict[frozenset[str], Collision] = {}
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
        """All that is told from here on happens at this moment."""
        self._at = at = to_ms(now)
        self._hour = (at - self.hours_from) // HOUR_MS
        self._part = (at - self.since) * PARTS // (self.until - self.since)

    def fired(self, run: PlayedRun) -> None:
        """An instant leads to a run."""
        name = run.played.job.name
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

    def skipped(self, played: PlayedJob, row: Skipped) -> None:
        """Instants do not run; each is counted in its own hour, those before the span in the first."""
        tally = self.jobs[played.name]
        count = COUNTED + 1 if row.count is None else row.count
        tally.fires += count
        tally.skipped[row.reason] += count
        for instant in _instants(played, row):
            self._note_skip(tally, to_ms(instant))

    def _note_skip(self, tally: JobTally, at: int) -> None:
        at = min(max(at, self.since), self.until - 1)
        tally.hours[(at - self.hours_from) // HOUR_MS] += 1
        tally.skipped_hours[(at - self.hours_from) // HOUR_MS] += 1
        tally.skipped_parts[(at - self.since) * PARTS // (self.until - self.since)] += 1

    def _note_wait(self, tally: JobTally, run: PlayedRun, waited: int) -> None:
        tally.longest_wait_ms = max(tally.longest_wait_ms, waited)
        self.longest_wait_ms = max(self.longest_wait_ms, waited)
        for draw in run.draws:
            self.pool_waits[draw.pool] = max(self.pool_waits[draw.pool], waited)

    def ended(self, run: PlayedRun) -> None:
        """A run is final."""
        tally = self.jobs[run.played.job.name]
        if run.status is COMPLETED:
            tally.completed += 1
        else:
            self._note_end(tally, run)
        if run.started_at is not None:
            self._note_execution(tally, run, until=self._at)

    def _note_execution(self, tally: JobTally, run: PlayedRun, *, until: int) -> None:
        """Count how long a run stood in the queue, and how long it had its slot and its pools."""
        if run.started_at is None or run.played.is_group:
            return
        started = to_ms(run.started_at)
        tally.runs += 1
        tally.retries += run.attempt > 1
        tally.running_ms += until - started
        if run.played.calls:
            self.call_hours[max(0, started - self.hours_from) // HOUR_MS] += run.played.calls
        if run.ready_at is not None and run.ready_at != run.started_at:
            self._note_wait(tally, run, started - to_ms(run.ready_at))
        self._spread(self.slot_parts, 1, started, until)
        for draw in run.draws:
            if draw.pool not in self.pool_parts:
                self.pool_parts[draw.pool] = [0.0] * PARTS
            self._spread(self.pool_parts[draw.pool], draw.cost, started, until)

    def _spread(self, parts: list[float], level: int, first: int, last: int) -> None:
        """Add a level to the parts from `first` to `last`."""
        begin, end = (first - self.since) * self._scale, (last - self.since) * self._scale
        if begin < 0:
            begin = 0.0
        index = int(begin)
        while end > index + 1:
            parts[index] += level * (index + 1 - begin)
            index += 1
            begin = index
        parts[index if index < PARTS else PARTS - 1] += level * (end - begin)

    def _note_end(self, tally: JobTally, run: PlayedRun) -> None:
        tally.ends[run.status] += 1
        if run.status is Status.SKIPPED and run.reason is not None:
            tally.skipped[run.reason] += 1
            tally.skipped_parts[self._part] += 1

    def waits(self, run: PlayedRun) -> None:
        """A run goes back to wait for a poll or a budget."""
        if run.waiting_for is not None:
            self.jobs[run.played.job.name].waits[run.waiting_for] += 1

    def moded(self, played: PlayedJob) -> None:
        """A job is planned in another mode from now on."""
        if played.job.mode is not None:
            self.jobs[played.name].modes.append((self._at, played.job.mode))

    def charged(self, accounts: Accounts) -> None:
        """Budgets are used differently from now on; a window that is over leaves nothing to the next."""
        for name, book in accounts.books.items():
            filled = book.windows[-1]
            gauge = self.accounts.get(name)
            if gauge is None:
                gauge = self.accounts[name] = Gauge(book.account.limit, self.since, self.until)
            before = self._windows.setdefault(name, filled.window)
            if before is not filled.window:
                gauge.note(0, to_ms(before.until))
                self._windows[name] = filled.window
            gauge.note(filled.used, self._at)

    def close(self, unfinished: Iterable[PlayedRun]) -> None:
        """Count up to the end of the span, also what still runs."""
        for run in unfinished:
            self._note_execution(self.jobs[run.played.job.name], run, until=self.until)
        if len(self._together) > 1:
            self._note_collision()
        for name, window in self._windows.items():
            if to_ms(window.until) < self.until:
                self.accounts[name].note(0, to_ms(window.until))
        for gauge in self.accounts.values():
            gauge.close()

    def _note_collision(self) -> None:
        self.collided += 1
        key = frozenset(self._together)
        found = self.collisions.get(key)
        if found is None:
            found = self.collisions[key] = Collision(self._second * SECOND_MS)
        found.times += 1


def _instants(played: PlayedJob, row: Skipped) -> list[datetime]:
    """Return the instants of a row; those of one that counts no longer are shown by its first."""
    schedule = played.job.spec.schedule
    if row.covers_to is None or row.count is None or schedule.follows_runs:
        return [row.scheduled_for]
    created_at, until = played.job.created_at, row.covers_to + MOMENT
    return list(instants_between(schedule, since=row.scheduled_for, until=until, created_at=created_at))
