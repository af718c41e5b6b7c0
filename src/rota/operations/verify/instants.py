"""Expected instants of each job, enumerated apart from the planner."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Protocol
from zoneinfo import ZoneInfo

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.spec import FirstRun, QuietPolicy, Schedule

_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: 1 + place for place, name in enumerate(_NAMES)}
_WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
_DAY = timedelta(days=1)
SATURDAY = 6


@dataclass(frozen=True, slots=True)
class CalendarFields:
    """An expression: minutes of a day, and what its days must be. Weekday 0 is Sunday.

    `both`: day of month and weekday must match, since one of them is a star; otherwise one of them is enough.
    `fixed`: neither the minute nor the hour is a star, so that a change of clocks neither loses nor doubles a fire.
    """

    minutes: tuple[int, ...]
    months: frozenset[int]
    days: frozenset[int]
    last_day: bool
    last_workday: bool
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    last_weekdays: frozenset[int]
    both: bool
    fixed: bool


@lru_cache(maxsize=1024)
def read_fields(expression: str) -> CalendarFields:
    """Return the fields of a stored expression."""
    minute, hour, day, month, weekday = expression.upper().split()
    days, weekdays = day.split(","), weekday.split(",")
    hours = sorted(_values([hour], 0, 23))
    return CalendarFields(
        minutes=tuple(60 * at + past for at in hours for past in sorted(_values([minute], 0, 59))),
        months=_values([month], 1, 12, _MONTHS),
        days=_values([term for term in days if term not in ("L", "LW")], 1, 31),
        last_day="L" in days,
        last_workday="LW" in days,
        weekdays=frozenset(at % 7 for at in _values([one for one in weekdays if _plain(one)], 0, 7, _WEEKDAYS)),
        nth_weekdays=frozenset(_nth(term) for term in weekdays if "#" in term),
        last_weekdays=frozenset(_weekday(term[:-1]) for term in weekdays if term.endswith("L")),
        both=day.startswith("*") or weekday.startswith("*"),
        fixed=not (minute.startswith("*") or hour.startswith("*")),
    )


def _plain(term: str) -> bool:
    return "#" not in term and not term.endswith("L")


def _nth(term: str) -> tuple[int, int]:
    name, _, nth = term.partition("#")
    return _weekday(name), int(nth)


def _weekday(text: str) -> int:
    return (_WEEKDAYS[text] if text in _WEEKDAYS else int(text)) % 7


def _values(terms: list[str], low: int, high: int, words: dict[str, int] | None = None) -> frozenset[int]:
    """Return the numbers of a field's list: `*`, `5`, `1-5`, `*/2`, `5/2` (to the end), `1-9/2`, and names."""
    known = words or {}
    found: set[int] = set()
    for term in (one for text in terms for one in text.split(",")):
        span, _, step = term.partition("/")
        first, dash, last = span.partition("-")
        start = low if first == "*" else known.get(first) if first in known else int(first)
        assert start is not None
        if first == "*" or (step and not dash):
            end = high
        else:
            end = (known[last] if last in known else int(last)) if dash else start
        found.update(range(start, end + 1, int(step or 1)))
    return frozenset(found)


@lru_cache(maxsize=8192)
def matches(fields: CalendarFields, day: date) -> bool:
    """Tell whether the expression fires on this date at all."""
    if day.month not in fields.months:
        return False
    by_day, by_weekday = _matches_day(fields, day), _matches_weekday(fields, day)
    return by_day and by_weekday if fields.both else by_day or by_weekday


def _matches_day(fields: CalendarFields, day: date) -> bool:
    if day.day in fields.days:
        return True
    if fields.last_day and (day + _DAY).month != day.month:
        return True
    return fields.last_workday and day == _last_workday(day)


def _matches_weekday(fields: CalendarFields, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if weekday in fields.weekdays or (weekday, (day.day + 6) // 7) in fields.nth_weekdays:
        return True
    return weekday in fields.last_weekdays and (day + 7 * _DAY).month != day.month


def _last_workday(day: date) -> date:
    """Return the last day from Monday to Friday of the month of `day`."""
    last = (day.replace(day=1) + 32 * _DAY).replace(day=1) - _DAY
    while last.isoweekday() >= SATURDAY:
        last -= _DAY
    return last


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

    expressions: tuple[CalendarFields, ...]
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
def _enumerate(expressions: tuple[CalendarFields, ...], zone: ZoneInfo, start: int) -> tuple[int, ...]:
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


def _even(fields: CalendarFields, start: int, offset: int) -> Iterator[int]:
    """Yield the instants of a day without a change of clocks."""
    for midnight in _midnights(fields, start + offset, start + DAY + offset):
        first = midnight - offset
        for minute in fields.minutes:
            at = first + minute * MINUTE
            if start <= at < start + DAY:
                yield at


def _uneven(fields: CalendarFields, start: int, segments: Sequence[Segment]) -> Iterator[int]:
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


def _midnights(fields: CalendarFields, first: int, end: int) -> Iterator[int]:
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


_EPOCH = date(1970, 1, 1)
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
KEPT = 512


class Fate(StrEnum):
    """What the calendar makes of an instant."""

    RUNS = "runs"
    EXCLUDED = "excluded"
    SKIPPED = "skipped"
    DEFERRED = "deferred"


@dataclass(slots=True)
class Walls:
    """When clocks in a zone show a wall time first, or have skipped it."""

    zone: ZoneInfo
    _known: dict[int, int] = field(default_factory=dict)

    def first(self, wall: int) -> int:
        """Return the instant; `wall` is in milliseconds, read as if clocks showed UTC."""
        found = self._known.get(wall)
        if found is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            segments = find_segments(self.zone, wall // DAY * DAY)
            found = self._known[wall] = (shown_at(wall, segments) or gap_end(wall, segments))[0]
        return found

    def day(self, ms: int) -> int:
        """Return the day that an instant belongs to, counted from 1970: each begins where clocks show its midnight."""
        guess = (from_ms(ms).astimezone(self.zone).date() - _EPOCH).days
        return next(day for day in (guess + 1, guess, guess - 1) if self.first(day * DAY) <= ms)


@dataclass(slots=True)
class Lulls:
    """The quiet hours and excluded dates of one schedule."""

    windows: tuple[tuple[frozenset[int], int, int], ...]
    quiet_walls: Walls
    policy: QuietPolicy | None
    excluded: frozenset[str]
    walls: Walls

    def fate(self, ms: int) -> Fate:
        """Return what the calendar makes of an instant; exclusion goes first."""
        if self.excluded and self._is_excluded(self.walls.day(ms)):
            return Fate.EXCLUDED
        if self.quiet_end(ms) is None:
            return Fate.RUNS
        return Fate.DEFERRED if self.policy is QuietPolicy.DEFER else Fate.SKIPPED

    def excluded_end(self, ms: int) -> int:
        """Return where the excluded days end that an instant lies in."""
        day = self.walls.day(ms)
        while self._is_excluded(day):
            day += 1
        return self.walls.first(day * DAY)

    def _is_excluded(self, day: int) -> bool:
        text = str(_EPOCH + timedelta(days=day))
        return text in self.excluded or text[5:] in self.excluded

    def quiet_end(self, ms: int) -> int | None:
        """Return the end of the quiet hours that an instant waits for, None where it fires when it comes."""
        if not any(begin <= ms < end for begin, end in self._near(ms)):
            return None
        end = ms
        while (later := max(until for begin, until in self._near(end) if begin <= end <= until)) > end:
            end = later
        return end

    def _near(self, ms: int) -> Iterator[tuple[int, int]]:
        """Yield the windows of the days around an instant."""
        today = self.quiet_walls.day(ms)
        for day in range(today - 2, today + 2) if self.windows else ():
            weekday = (day + 3) % 7  # the first day of 1970 was a Thursday
            for days, start, end in self.windows:
                if weekday in days:
                    first = self.quiet_walls.first
                    yield first(day * DAY + start * MINUTE), first(day * DAY + end * MINUTE)


def lulls_of(schedule: Schedule) -> Lulls | None:
    """Return the quiet hours and excluded dates of a schedule, None where it has none that act on instants."""
    quiet = schedule.quiet
    acts = quiet is not None and quiet.policy is not QuietPolicy.DORMANT
    if not acts and not schedule.excluded:
        return None
    return Lulls(
        tuple(_window(text) for text in quiet.windows) if quiet is not None and acts else (),
        Walls(ZoneInfo(quiet.timezone if quiet is not None else "UTC")),
        quiet.policy if quiet is not None and acts else None,
        frozenset(schedule.excluded),
        Walls(ZoneInfo(schedule.timezone)),
    )


def follows_zones(schedule: Schedule) -> bool:
    """Tell whether the lulls depend on the data of time zones."""
    quiet = schedule.quiet is not None and schedule.quiet.timezone != "UTC"
    return quiet or (bool(schedule.excluded) and schedule.timezone != "UTC")


def _window(text: str) -> tuple[frozenset[int], int, int]:
    """Read a stored window: the days it begins on, and its minutes; beyond 24 hours it ends on the day after."""
    *days, times = text.split(" ")
    start, end = (60 * int(one[:2]) + int(one[3:]) for one in times.split("-"))
    named = frozenset(day for term in days[0].split(",") for day in _days(term)) if days else frozenset(range(7))
    return named, start, end if start < end else end + 24 * 60


def _days(term: str) -> range:
    first, _, last = term.partition("-")
    return range(_WEEK.index(first), _WEEK.index(last or first) + 1)
