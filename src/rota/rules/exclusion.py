"""Excluded dates: days of a job's zone, one by one (2026-12-25) or of every year (12-25), whose instants do not run."""

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from rota.model.spec import Schedule
from rota.rules.timezone import end_of_gap, instants_of_wall, zone

_DAY = timedelta(days=1)
_LEAP_CYCLE = 8
"""Within so many years the 29th of February comes again, also around 2100."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Single dates in order, and days of every year as month and day."""

    dates: tuple[date, ...]
    yearly: frozenset[tuple[int, int]]

    def holds(self, day: date) -> bool:
        """Tell whether a day is excluded."""
        place = bisect_left(self.dates, day)
        return (day.month, day.day) in self.yearly or (place < len(self.dates) and self.dates[place] == day)

    def next(self, after: date) -> date | None:
        """Return the first excluded day after this one, None for none."""
        place = bisect_left(self.dates, after + _DAY)
        found = [_next_of_year(month, day, after) for month, day in self.yearly]
        return min([*found, *self.dates[place : place + 1]], default=None)


def _next_of_year(month: int, day: int, after: date) -> date:
    years = range(after.year, after.year + _LEAP_CYCLE + 1)
    dates = (date(year, month, day) for year in years if _exists(year, month, day))
    return next(found for found in dates if found > after)


def _exists(year: int, month: int, day: int) -> bool:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)


@lru_cache(maxsize=1024)
def read_calendar(excluded: tuple[str, ...]) -> Calendar:
    """Return the calendar of stored texts.

    >>> read_calendar(("12-25", "2027-01-06")).next(date(2026, 12, 25))
    datetime.date(2027, 1, 6)
    """
    dates = sorted(date.fromisoformat(text) for text in excluded if len(text) == len("2026-12-25"))
    yearly = {(int(text[:2]), int(text[3:])) for text in excluded if len(text) == len("12-25")}
    return Calendar(tuple(dates), frozenset(yearly))


def excluded_until(schedule: Schedule, at: datetime) -> datetime | None:
    """Return the first moment of the next day that is not excluded, None where the day of `at` is not excluded.

    >>> holidays = Schedule(excluded=("12-25", "12-26"), timezone="Europe/Madrid")
    >>> excluded_until(holidays, datetime.fromisoformat("2026-12-25T09:00:00Z")).isoformat()
    '2026-12-26T23:00:00+00:00'
    """
    if not schedule.excluded:
        return None
    calendar, day = read_calendar(schedule.excluded), _day_of(at, schedule.timezone)
    if not calendar.holds(day):
        return None
    while calendar.holds(day):
        day += _DAY
    return _begins(day, schedule.timezone)


def next_excluded(schedule: Schedule, after: datetime) -> datetime | None:
    """Return when the next excluded day begins, later than the day of `after`; None for never again."""
    if not schedule.excluded:
        return None
    day = read_calendar(schedule.excluded).next(_day_of(after, schedule.timezone))
    return None if day is None else _begins(day, schedule.timezone)


def _day_of(at: datetime, tz: str) -> date:
    """Return the day that `at` belongs to: set back over midnight, clocks show the old date again, but days go on."""
    day = at.astimezone(zone(tz)).date()
    return day + _DAY if at >= _begins(day + _DAY, tz) else day


@lru_cache(maxsize=4096)
def _begins(day: date, tz: str) -> datetime:
    """Return the first moment of a day, also where clocks skip its midnight."""
    midnight, place = datetime.combine(day, time()), zone(tz)
    return (next(iter(instants_of_wall(midnight, place)), None) or end_of_gap(midnight, place)).astimezone(UTC)
