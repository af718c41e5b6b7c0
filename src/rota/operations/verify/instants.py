"""Expected instants of each job, enumerated apart from the planner."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim
from msgspec import Struct
from msgspec.structs import replace

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.spec import FirstRun, QuietPolicy, Schedule

HOUR = 3_600_000
DAY = 24 * HOUR
MINUTE = 60_000
HORIZON = 50 * 366 * DAY
"""How far ahead the next instant of a cron expression is searched."""
CACHED_DAYS = 64
CACHED_WALLS = 512
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times have no zone


class At(Struct, frozen=True):
    """One instant."""

    at: int

    def after(self, ms: int) -> int | None:
        """Return the instant if it is after `ms`."""
        return self.at if self.at > ms else None


class Grid(Struct, frozen=True):
    """Instants at equal intervals from `origin` on."""

    origin: int
    step: int

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms`."""
        return self.origin if ms < self.origin else ms + self.step - (ms - self.origin) % self.step


class Cron(Struct, frozen=True):
    """The union of cron expressions in a zone, enumerated one UTC day at a time."""

    expressions: tuple[str, ...]
    zone: ZoneInfo
    until: int

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms`."""
        day, last = (ms + 1) // DAY, min(ms + HORIZON, self.until) // DAY
        while day <= last:
            instants = _instants_of_day(self.expressions, self.zone, day * DAY)
            place = bisect_right(instants, ms)
            if place < len(instants):
                return instants[place]
            day = day + 1 if instants else max(day + 1, self._next_day(day))
        return None

    def _next_day(self, day: int) -> int:
        """Return a day before which no instant can follow those of `day`; clocks are at most a day off UTC."""
        begins = _EPOCH + timedelta(days=day)
        walls = [wall for expression in self.expressions for wall in islice(_walls(expression, begins), 1)]
        return (min(walls) - _EPOCH).days - 1 if walls else self.until // DAY + 1


class Bounded(Struct, frozen=True):
    """The instants from `first` on and before `end`."""

    inner: At | Grid | Cron
    first: int
    end: int

    def after(self, ms: int) -> int | None:
        """Return the first instant after `ms` within the bounds."""
        if ms >= self.end:
            return None
        at = self.inner.after(max(ms, self.first - 1))
        return at if at is not None and at < self.end else None


_parsed = lru_cache(maxsize=1024)(partial(CronSim, dt=_EPOCH - timedelta(seconds=1)))


def _walls(expression: str, begins: datetime) -> Iterator[datetime]:
    """Yield the matching wall times from `begins` on. cronsim enumerates them: without a zone, clocks never change."""
    cron, day = copy(_parsed(expression)), begins.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        while True:
            cron.dt = day - timedelta(seconds=1)
            first = next(cron, None)
            if first is None:
                return
            day = first.replace(hour=0, minute=0)
            yield from (wall for time in _times_of_day(expression) if (wall := day + time) >= begins)
            day += timedelta(days=1)
    except OverflowError:
        return  # the end of the calendar


@lru_cache(maxsize=1024)
def _times_of_day(expression: str) -> tuple[timedelta, ...]:
    """Return the times of a matching day, which are the same on all of them."""
    walls = copy(_parsed(expression))
    first = next(walls)
    day = first.replace(hour=0, minute=0)
    return (first - day, *(wall - day for wall in takewhile(lambda wall: wall.date() == day.date(), walls)))


@lru_cache(maxsize=CACHED_DAYS)
def _instants_of_day(expressions: tuple[str, ...], zone: ZoneInfo, start: int) -> tuple[int, ...]:
    """Return the instants of the 24 hours from `start` on.

    A change of clocks neither loses nor doubles a fixed time, that is without a star in minute and hour: it fires when
    clocks show it first, or when the gap that holds it ends. Other times fire whenever clocks show them.
    """
    offsets = {_offset_at(zone, at) for at in (start - DAY, start, start + DAY, start + 2 * DAY)}
    first, end = start + min(offsets), start + DAY + max(offsets)
    instants: set[int] = set()
    for expression in expressions:
        fixed = not any(field.startswith("*") for field in expression.split()[:2])
        walls = _walls(expression, _EPOCH + first * MILLISECOND)
        for wall in takewhile(lambda wall: (wall - _EPOCH) // MILLISECOND < end, walls):
            if len(offsets) == 1:
                instants.add((wall - _EPOCH) // MILLISECOND - first + start)
            else:
                shown = _shown_at(wall, zone)
                instants.update([(shown or [_gap_end(wall, zone)])[0]] if fixed else shown)
    return tuple(sorted(at for at in instants if start <= at < start + DAY))


def _offset_at(zone: ZoneInfo, ms: int) -> int:
    offset = from_ms(ms).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // MILLISECOND


def _shown_at(wall: datetime, zone: ZoneInfo) -> list[int]:
    """Return the instants at which clocks show `wall`: none in a gap, two where clocks are set back."""
    readings = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(to_ms(at) for at in readings if at.astimezone(zone).replace(tzinfo=None, fold=0) == wall)


def _gap_end(wall: datetime, zone: ZoneInfo) -> int:
    """Return the end of the gap that holds `wall`: the one change of offset between its two readings."""
    early, late = (int(wall.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (1, 0))
    before = _offset_at(zone, 1000 * early)
    seconds = range(early, late + 1)
    return 1000 * seconds[bisect_left(seconds, 1, key=lambda second: _offset_at(zone, 1000 * second) != before)]


def instants_of(schedule: Schedule, *, created_at: int) -> Bounded | None:
    """Return the instants of a schedule; None if there are none or they depend on runs."""
    unbounded = _unbounded(schedule, created_at)
    if unbounded is None:
        return None
    first = _ms(schedule.start_at, otherwise=_FIRST)
    return Bounded(unbounded, first, _ms(schedule.end_at, otherwise=_LAST))


def instant_after(schedule: Schedule, at: int, *, created_at: int) -> int | None:
    """Return the instant after `at` regardless of `end_at`: the bound of the jitter, also of the last instant."""
    unbounded = _unbounded(replace(schedule, end_at=None), created_at)
    return None if unbounded is None else unbounded.after(at)


def _unbounded(schedule: Schedule, created_at: int) -> At | Grid | Cron | None:
    if schedule.cron:
        return Cron(schedule.cron, ZoneInfo(schedule.timezone), _ms(schedule.end_at, otherwise=_LAST))
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


_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Fate(StrEnum):
    """The effect of quiet hours and excluded dates on an instant."""

    RUNS = "runs"
    EXCLUDED = "excluded"
    SKIPPED = "skipped"
    DEFERRED = "deferred"


@lru_cache(maxsize=CACHED_WALLS)
def _first_shown(zone: ZoneInfo, day: int, minute: int = 0) -> int:
    """Return when clocks first show a minute of a day, or have skipped it. Days are counted from 1970."""
    wall = _EPOCH + timedelta(days=day, minutes=minute)
    return (_shown_at(wall, zone) or [_gap_end(wall, zone)])[0]


def _day_of(zone: ZoneInfo, ms: int) -> int:
    """Return the day of an instant, counted from 1970. Each day begins when clocks show its midnight."""
    guess = (from_ms(ms).astimezone(zone).replace(tzinfo=None) - _EPOCH).days
    return next(day for day in (guess + 1, guess, guess - 1) if _first_shown(zone, day) <= ms)


class AuditedBlackouts(Struct):
    """The quiet hours and excluded dates of one schedule."""

    windows: tuple[tuple[frozenset[int], int, int], ...]
    quiet_zone: ZoneInfo
    policy: QuietPolicy | None
    excluded: frozenset[str]
    zone: ZoneInfo

    def fate(self, ms: int) -> Fate:
        """Return the effect on an instant; exclusion goes first."""
        if self.excluded and self._is_excluded(_day_of(self.zone, ms)):
            return Fate.EXCLUDED
        if self.quiet_end(ms) is None:
            return Fate.RUNS
        return Fate.DEFERRED if self.policy is QuietPolicy.DEFER else Fate.SKIPPED

    def excluded_end(self, ms: int) -> int:
        """Return the end of the excluded days that hold an instant."""
        day = _day_of(self.zone, ms)
        while self._is_excluded(day):
            day += 1
        return _first_shown(self.zone, day)

    def _is_excluded(self, day: int) -> bool:
        text = str((_EPOCH + timedelta(days=day)).date())
        return text in self.excluded or text[5:] in self.excluded

    def quiet_end(self, ms: int) -> int | None:
        """Return the end of the quiet hours that hold an instant, None outside of them."""
        if not any(begin <= ms < end for begin, end in self._near(ms)):
            return None
        end = ms
        while (later := max(until for begin, until in self._near(end) if begin <= end <= until)) > end:
            end = later
        return end

    def _near(self, ms: int) -> Iterator[tuple[int, int]]:
        """Yield the windows of the days around an instant."""
        today = _day_of(self.quiet_zone, ms)
        for day in range(today - 2, today + 2) if self.windows else ():
            weekday = (day + 3) % 7  # the first day of 1970 was a Thursday
            for days, start, end in self.windows:
                if weekday in days:
                    yield _first_shown(self.quiet_zone, day, start), _first_shown(self.quiet_zone, day, end)


def blackouts_of(schedule: Schedule) -> AuditedBlackouts | None:
    """Return the quiet hours and excluded dates of a schedule, None if none affect instants."""
    quiet = schedule.quiet
    acts = quiet is not None and quiet.policy is not QuietPolicy.DORMANT
    if not acts and not schedule.excluded:
        return None
    return AuditedBlackouts(
        tuple(_window(text) for text in quiet.windows) if quiet is not None and acts else (),
        ZoneInfo(quiet.timezone if quiet is not None else "UTC"),
        quiet.policy if quiet is not None and acts else None,
        frozenset(schedule.excluded),
        ZoneInfo(schedule.timezone),
    )


def follows_zones(schedule: Schedule) -> bool:
    """Return whether quiet hours or excluded dates depend on time zone data."""
    quiet = schedule.quiet is not None and schedule.quiet.timezone != "UTC"
    return quiet or (bool(schedule.excluded) and schedule.timezone != "UTC")


def _window(text: str) -> tuple[frozenset[int], int, int]:
    """Read a stored window: the weekdays of its start, and its minutes; beyond 24 hours it ends on the next day."""
    *days, times = text.split(" ")
    start, end = (60 * int(time[:2]) + int(time[3:]) for time in times.split("-"))
    named = frozenset(day for term in days[0].split(",") for day in _days(term)) if days else frozenset(range(7))
    return named, start, end if start < end else end + 24 * 60


def _days(term: str) -> range:
    first, _, last = term.partition("-")
    return range(_WEEK.index(first), _WEEK.index(last or first) + 1)
