"""Quiet hours and excluded dates read a second time, in milliseconds: which rows an instant may have (R-17)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from rota.model.clock import from_ms
from rota.model.spec import QuietPolicy, Schedule
from rota.operations.auditing.instants import DAY, MINUTE, find_segments, gap_end, shown_at

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
