"""Instants enumerated a second time, in milliseconds: cron by the wall clock of each day, fixed grids, and `at`."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Protocol
from zoneinfo import ZoneInfo

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.spec import FirstRun, Schedule
from rota.operations.auditing.calendar import CronFields, matches, read_fields

HOUR = 3_600_000
DAY = 24 * HOUR
MINUTE = 60_000
SECOND = 1_000
HORIZON = 50 * 366 * DAY
"""How far the next instant of a cron expression is looked for."""
WINDOWS_KEPT = 8
DAYS_KEPT = 64
"""For all jobs: they often share an expression, and to look up a number is faster still."""


class Instants(Protocol):
    """The instants of a schedule, in order."""

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms`, None for none."""
        ...


@dataclass(frozen=True, slots=True)
class At:
    """One instant."""

    at: int

    def after(self, ms: int) -> int | None:
        """Return the instant if it is after `ms`."""
        return self.at if self.at > ms else None


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants at equal distances, from `origin` on."""

    origin: int
    step: int

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms`."""
        return self.origin if ms < self.origin else ms + self.step - (ms - self.origin) % self.step


@dataclass(frozen=True, slots=True)
class Bounded:
    """The instants from `first` on and before `end`."""

    inner: Instants
    first: int
    end: int

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms` within the bounds."""
        if ms >= self.end:
            return None
        found = self.inner.after(max(ms, self.first - 1))
        return found if found is not None and found < self.end else None


@dataclass(slots=True)
class Cron:
    """The union of cron expressions in a zone, worked out for one day of UTC at a time."""

    expressions: tuple[CronFields, ...]
    zone: ZoneInfo
    until: int
    _windows: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms`."""
        day, last = (ms + 1) // DAY, min(ms + HORIZON, self.until) // DAY
        while day <= last:
            found = self._window(day)
            place = bisect_right(found, ms)
            if place < len(found):
                return found[place]
            day += 1
        return None

    def _window(self, day: int) -> tuple[int, ...]:
        found = self._windows.get(day)
        if found is None:
            if len(self._windows) >= WINDOWS_KEPT:
                self._windows.clear()
            found = self._windows[day] = _enumerate(self.expressions, self.zone, day * DAY)
        return found


@lru_cache(maxsize=DAYS_KEPT)
def _enumerate(expressions: tuple[CronFields, ...], zone: ZoneInfo, start: int) -> tuple[int, ...]:
    offsets = {offset_at(zone, at) for at in (start - DAY, start, start + DAY, start + 2 * DAY)}
    segments = [Segment(0, offsets.pop())] if len(offsets) == 1 else find_segments(zone, start)
    found: set[int] = set()
    for fields in expressions:
        found.update(_even(fields, start, segments[0].offset) if len(segments) == 1 else ())
        found.update(_uneven(fields, start, segments) if len(segments) > 1 else ())
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Segment:
    """From `begins` on clocks are `offset` milliseconds ahead of UTC. The first segment of a list has no beginning."""

    begins: int
    offset: int


def offset_at(zone: ZoneInfo, ms: int) -> int:
    """Return how far clocks in `zone` are ahead of UTC at `ms`."""
    offset = from_ms(ms).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // MILLISECOND


def find_segments(zone: ZoneInfo, start: int) -> list[Segment]:
    """Return the offsets around the day that begins at `start`, hour by hour, each change found to the second."""
    found = [Segment(start - DAY, offset_at(zone, start - DAY))]
    for at in range(start - DAY + HOUR, start + 2 * DAY + 1, HOUR):
        if offset_at(zone, at) != found[-1].offset:
            seconds = range((at - HOUR) // SECOND, at // SECOND + 1)
            before = found[-1].offset
            place = bisect_left(seconds, 1, key=lambda second: offset_at(zone, second * SECOND) != before)
            begins = seconds[place] * SECOND
            found.append(Segment(begins, offset_at(zone, begins)))
    return found


def _even(fields: CronFields, start: int, offset: int) -> Iterator[int]:
    """Yield the instants of a day without a change of clocks."""
    for midnight in _midnights(fields, start + offset, start + DAY + offset):
        first = midnight - offset
        for minute in fields.minutes:
            at = first + minute * MINUTE
            if start <= at < start + DAY:
                yield at


def _uneven(fields: CronFields, start: int, segments: Sequence[Segment]) -> Iterator[int]:
    """Yield the instants of a day near a change of clocks.

    A fixed time fires once: the first time that clocks show it, or when the gap that holds it is over. The others fire
    whenever clocks show them.
    """
    offsets = [segment.offset for segment in segments]
    for midnight in _midnights(fields, start + min(offsets), start + DAY + max(offsets)):
        for minute in fields.minutes:
            wall = midnight + minute * MINUTE
            shown = shown_at(wall, segments)
            if fields.fixed:
                shown = shown[:1] or gap_end(wall, segments)
            yield from (at for at in shown if start <= at < start + DAY)


def _midnights(fields: CronFields, first: int, end: int) -> Iterator[int]:
    """Yield the matching dates that touch this stretch of wall time, as the wall time of their midnights."""
    for number in range(first // DAY, (end - 1) // DAY + 1):
        if matches(fields, date(1970, 1, 1) + timedelta(days=number)):
            yield number * DAY


def shown_at(wall: int, segments: Sequence[Segment]) -> list[int]:
    """Return the instants at which clocks show `wall`."""
    found = []
    for place, segment in enumerate(segments):
        at = wall - segment.offset
        begun = place == 0 or at >= segment.begins
        ended = place + 1 < len(segments) and at >= segments[place + 1].begins
        if begun and not ended:
            found.append(at)
    return found


def gap_end(wall: int, segments: Sequence[Segment]) -> list[int]:
    """Return when the gap that holds `wall` is over; nothing where no gap does."""
    return [
        later.begins
        for earlier, later in pairwise(segments)
        if later.begins + earlier.offset <= wall < later.begins + later.offset
    ]


def instants_of(schedule: Schedule, *, created_at: int) -> Instants | None:
    """Return the instants of a schedule; None where they cannot be known beforehand, or there are none."""
    unbounded = _unbounded(schedule, created_at)
    if unbounded is None:
        return None
    first = _ms(schedule.start_at, otherwise=_FIRST)
    return Bounded(unbounded, first, _ms(schedule.end_at, otherwise=_LAST))


def instant_after(schedule: Schedule, at: int, *, created_at: int) -> int | None:
    """Return the instant that follows `at` whatever the bounds say: jitter is measured by it, also the last one's."""
    unbounded = _unbounded(replace(schedule, end_at=None), created_at)
    return None if unbounded is None else unbounded.after(at)


def _unbounded(schedule: Schedule, created_at: int) -> Instants | None:
    if schedule.cron:
        fields = tuple(read_fields(expression) for expression in schedule.cron)
        return Cron(fields, ZoneInfo(schedule.timezone), _ms(schedule.end_at, otherwise=_LAST))
    if schedule.at is not None:
        return At(to_ms(schedule.at))
    if schedule.interval is None or schedule.follows_runs:
        return None
    step = schedule.interval // MILLISECOND
    late = step if schedule.first_run is FirstRun.AFTER_INTERVAL else 0
    return Grid(_ms(schedule.start_at, otherwise=created_at + late), step)


def _ms(at: datetime | None, *, otherwise: int) -> int:
    return otherwise if at is None else to_ms(at)


_FIRST = to_ms(datetime(1970, 1, 1, tzinfo=UTC))
_LAST = to_ms(datetime(9990, 1, 1, tzinfo=UTC))
