"""The instants of cron expressions in a time zone. cronsim reads the fields and tells which days match.

Which instants such a day has is worked out here, once for both directions: cronsim's own steps lose or invent instants
where clocks move by less than an hour or at midnight, and its way back is not the mirror of its way forward.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from rota.model.errors import CronNeverFires
from rota.rules.cron_text import normalise
from rota.rules.timezone import end_of_gap, instants_of_wall, zone

HORIZON_YEARS = 50
REMEMBERED = 4096
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_FIRST_YEAR, _LAST_YEAR = 3, 9997
_CALENDAR_CYCLE = (date(2000, 1, 1), date(2400, 1, 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    """A read expression: `minutes` of a matching day from midnight on; `fixed` without `*` in minute and hour."""

    days: CronSim
    minutes: Sequence[int]
    fixed: bool


class _Gap(NamedTuple):
    """Two moments with no instant between them: `found` is the first one after `after`, `day` the even day it is on."""

    after: datetime
    found: datetime
    day: "_EvenDay | None"


_latest: dict[tuple[tuple[str, ...], str], _Gap] = {}


@lru_cache(maxsize=4096)
def check_cron(text: str) -> str:
    """Return the normalised expression, or raise InvalidCron with field, value, allowed range and an example.

    >>> check_cron("@weekly")
    '0 0 * * 0'
    """
    expression = normalise(text)
    if not _ever_fires(expression):
        raise CronNeverFires(
            f"cron {text!r} never fires: the day of month and month that it names do not meet",
            hint="name a day that one of the months has, or L for the last one: 0 0 L 2 *",
        )
    return expression


def _ever_fires(expression: str) -> bool:
    first, until = _CALENDAR_CYCLE
    try:
        return next(_days_from(_read(expression).days, first, until=until), None) is not None
    except CronSimError:  # our own door has checked everything else, what is left are days that no month has
        return False


@lru_cache(maxsize=4096)
def _read(expression: str) -> _Fields:
    simulation = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - only its fields are used
    hours, minutes = sorted(simulation.hours), sorted(simulation.minutes)
    minutes_of_day = array("H", (60 * hour + minute for hour in hours for minute in minutes))
    minute_field, hour_field, *_ = expression.split()
    return _Fields(simulation, minutes_of_day, fixed=not (minute_field.startswith("*") or hour_field.startswith("*")))


def cron_next(expressions: tuple[str, ...], tz: str, after: datetime) -> datetime | None:
    """Return the first instant strictly after `after` of the union, in UTC; None if there is none for 50 years.

    >>> cron_next(("30 2 * * *",), "Europe/Paris", datetime(2026, 3, 28, 12, tzinfo=UTC)).isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    if after.tzinfo is not UTC:
        after = after.astimezone(UTC)
    known = _latest.get((expressions, tz))
    if known is None:
        return _look_further(expressions, tz, after)
    if known.after <= after < known.found:
        return known.found  # many jobs share an expression, and there is nothing between the two
    day = known.day
    if day is None or after < day.midnight or (later_that_day := day.first_after(after)) is None:
        return _look_further(expressions, tz, after)
    _latest[expressions, tz] = _Gap(after, later_that_day, day)
    return later_that_day


def _look_further(expressions: tuple[str, ...], tz: str, after: datetime) -> datetime | None:
    """Find the first instant after `after`, and remember it together with its day."""
    every = [_next(_read(expression), tz, after) for expression in expressions]
    found = every[0] if len(every) == 1 else min((at for at in every if at is not None), default=None)
    if found is not None:
        day = _even_day(_read(expressions[0]), tz, _wall_date(found, tz)) if len(every) == 1 else None
        if len(_latest) >= REMEMBERED:
            _latest.clear()
        _latest[expressions, tz] = _Gap(after, found, day)
    return found


def cron_previous(expressions: tuple[str, ...], tz: str, before: datetime) -> datetime | None:
    """Return the last instant strictly before `before` of the union, in UTC; None if there is none for 50 years.

    >>> cron_previous(("30 2 * * *",), "Europe/Paris", datetime(2026, 10, 25, 12, tzinfo=UTC)).isoformat()
    '2026-10-25T00:30:00+00:00'
    """
    before = before.astimezone(UTC)
    found = (_previous(_read(expression), tz, before) for expression in expressions)
    return max((at for at in found if at is not None), default=None)


def cron_count(expressions: tuple[str, ...], tz: str, *, first: datetime, last: datetime, at_most: int) -> int | None:
    """Return how many instants lie from `first` to `last`, both included; None above `at_most`."""
    found: set[datetime] = set()
    readings = [_read(expression) for expression in expressions]
    for day in _dates(_wall_date(first, tz) - _DAY, until=_wall_date(last, tz) + _DAY):
        for fields in readings:
            if _matches(fields.days, day):
                found.update(at for at in _instants_of_day(fields, tz, day) if first <= at <= last)
        if len(found) > at_most:
            return None
    return len(found)


def _next(fields: _Fields, tz: str, after: datetime) -> datetime | None:
    if not _FIRST_YEAR <= after.year < _LAST_YEAR:
        return None
    today = _wall_date(after, tz)
    later_today = _later_today(fields, tz, today, after=after)
    if later_today is not None:
        return later_today
    until = date(min(after.year + HORIZON_YEARS, _LAST_YEAR), 12, 31)
    found, found_on = None, until
    for day in _days_from(fields.days, _neighbour(today, tz, -_DAY), until=until):
        if found is not None and day > _neighbour(found_on, tz, _DAY):
            break
        candidate = _instants_of_day(fields, tz, day).first_after(after)
        if candidate is not None and (found is None or candidate < found):
            found, found_on = candidate, day
    return found


def _later_today(fields: _Fields, tz: str, today: date, *, after: datetime) -> datetime | None:
    """Return what is left of a day without a change of clocks: nothing can come before it. None: look further."""
    day = _even_day(fields, tz, today)
    return None if day is None else day.first_after(after)


def _even_day(fields: _Fields, tz: str, day: date) -> "_EvenDay | None":
    """Return a matching day without a change of clocks, None where it is not one."""
    midnight = _even_midnight(tz, day)
    return None if midnight is None or not _matches_on(fields, day) else _EvenDay(midnight, fields.minutes)


@lru_cache(maxsize=4096)
def _matches_on(fields: _Fields, day: date) -> bool:
    return _matches(fields.days, day)


def _previous(fields: _Fields, tz: str, before: datetime) -> datetime | None:
    if not _FIRST_YEAR < before.year <= _LAST_YEAR:
        return None
    until = date(max(before.year - HORIZON_YEARS, _FIRST_YEAR), 1, 1)
    found, found_on = None, until
    for day in _days_from(fields.days, _neighbour(_wall_date(before, tz), tz, _DAY), until=until):
        if found is not None and day < _neighbour(found_on, tz, -_DAY):
            break
        candidate = _instants_of_day(fields, tz, day).last_before(before)
        if candidate is not None and (found is None or candidate > found):
            found, found_on = candidate, day
    return found


def _neighbour(day: date, tz: str, step: timedelta) -> date:
    """Return `day`, or the date beside it where clocks change: set back over midnight, two dates interleave."""
    return day + step if _even_midnight(tz, day) is None else day


def _wall_date(at: datetime, tz: str) -> date:
    return at.astimezone(zone(tz)).date()


def _matches(days: CronSim, day: date) -> bool:
    return day.month in days.months and days.match_day(day)


def _days_from(days: CronSim, first: date, *, until: date) -> Iterator[date]:
    """Yield the matching dates from `first` to `until`, both included, in whichever direction that is."""
    return (day for day in _dates(first, until=until, months=days.months) if days.match_day(day))


def _dates(first: date, *, until: date, months: Collection[int] = range(1, 13)) -> Iterator[date]:
    """Yield the dates of `months` from `first` to `until`, leaping over the other months."""
    back = until < first
    step = -_DAY if back else _DAY
    day = first
    while day >= until if back else day <= until:
        if day.month in months:
            yield day
            day += step
        else:
            day = day.replace(day=1) - _DAY if back else (day.replace(day=1) + 32 * _DAY).replace(day=1)


@dataclass(frozen=True, slots=True)
class _EvenDay:
    """The instants of a day without a change of clocks, made as they are asked for."""

    midnight: datetime
    minutes: Sequence[int]

    def __iter__(self) -> Iterator[datetime]:
        return (self.midnight + minute * _MINUTE for minute in self.minutes)

    def first_after(self, at: datetime) -> datetime | None:
        place = bisect_right(self.minutes, (at - self.midnight) // _MINUTE)
        return self.midnight + self.minutes[place] * _MINUTE if place < len(self.minutes) else None

    def last_before(self, at: datetime) -> datetime | None:
        rounded_up = -((self.midnight - at) // _MINUTE)
        place = bisect_left(self.minutes, rounded_up)
        return self.midnight + self.minutes[place - 1] * _MINUTE if place else None


@dataclass(frozen=True, slots=True)
class _UnevenDay:
    """The instants of a day on which clocks change."""

    instants: Sequence[datetime]

    def __iter__(self) -> Iterator[datetime]:
        return iter(self.instants)

    def first_after(self, at: datetime) -> datetime | None:
        place = bisect_right(self.instants, at)
        return self.instants[place] if place < len(self.instants) else None

    def last_before(self, at: datetime) -> datetime | None:
        place = bisect_left(self.instants, at)
        return self.instants[place - 1] if place else None


def _instants_of_day(fields: _Fields, tz: str, day: date) -> _EvenDay | _UnevenDay:
    midnight = _even_midnight(tz, day)
    return _uneven_day(fields, tz, day) if midnight is None else _EvenDay(midnight, fields.minutes)


@lru_cache(maxsize=4096)
def _even_midnight(tz: str, day: date) -> datetime | None:
    """Return the instant at which `day` begins, None when clocks change on it or at one of its ends."""
    place = zone(tz)
    ends = [
        datetime.combine(midnight, time(fold=fold), tzinfo=place) for midnight in (day, day + _DAY) for fold in (0, 1)
    ]
    return ends[0].astimezone(UTC) if len({end.utcoffset() for end in ends}) == 1 else None


@lru_cache(maxsize=1024)
def _uneven_day(fields: _Fields, tz: str, day: date) -> _UnevenDay:
    """Return the instants of a day on which clocks change, as Debian's cron has them.

    Fixed times fire once: after the gap, and the first time in a fold. The others fire whenever a clock shows them.
    """
    place = zone(tz)
    instants: set[datetime] = set()
    for minute in fields.minutes:
        wall = datetime.combine(day, time()) + minute * _MINUTE
        found = instants_of_wall(wall, place)
        if fields.fixed:
            found = found[:1] or [end_of_gap(wall, place)]
        instants.update(found)
    return _UnevenDay(sorted(instants))


@lru_cache(2_000)
def explain_cron(expressions: tuple[str, ...]) -> str:
    """Return what the expressions mean, in plain English.

    >>> explain_cron(("30 2 * * *",))
    'at 02:30 every day'
    >>> explain_cron(("*/5 * * * *", "0 0 L * *"))
    'every 5 minutes, and at 00:00 on the last day of every month'
    """
    return ", and ".join(_explain(expression) for expression in expressions)


def _explain(expression: str) -> str:
    for shape, unit, whole in _EVEN_STEPS:
        if (match := shape.fullmatch(expression)) and whole % int(match[1]) == 0:
            return f"every {unit}" if match[1] == "1" else f"every {match[1]} {unit}s"
    text = _read(expression).days.explain().replace("day of month", "day of the month")
    return text[0].lower() + text[1:]


_EVEN_STEPS = (
    (re.compile(r"\*/(\d+) \* \* \* \*"), "minute", 60),
    (re.compile(r"0 \*/(\d+) \* \* \*"), "hour", 24),
)
