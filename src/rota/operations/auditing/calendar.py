"""Cron fields read a second time, and the days that they name. Own reading: an auditor must not trust the planner's."""

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: 1 + place for place, name in enumerate(_NAMES)}
_WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
_DAY = timedelta(days=1)
SATURDAY = 6


@dataclass(frozen=True, slots=True)
class CronFields:
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
def read_fields(expression: str) -> CronFields:
    """Return the fields of a stored expression."""
    minute, hour, day, month, weekday = expression.upper().split()
    days, weekdays = day.split(","), weekday.split(",")
    hours = sorted(_values([hour], 0, 23))
    return CronFields(
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
def matches(fields: CronFields, day: date) -> bool:
    """Tell whether the expression fires on this date at all."""
    if day.month not in fields.months:
        return False
    by_day, by_weekday = _matches_day(fields, day), _matches_weekday(fields, day)
    return by_day and by_weekday if fields.both else by_day or by_weekday


def _matches_day(fields: CronFields, day: date) -> bool:
    if day.day in fields.days:
        return True
    if fields.last_day and _last_of_month(day):
        return True
    return fields.last_workday and day == _last_workday(day)


def _matches_weekday(fields: CronFields, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if weekday in fields.weekdays or (weekday, (day.day + 6) // 7) in fields.nth_weekdays:
        return True
    return weekday in fields.last_weekdays and (day + 7 * _DAY).month != day.month


def _last_of_month(day: date) -> bool:
    return (day + _DAY).month != day.month


def _last_workday(day: date) -> date:
    """Return the last day from Monday to Friday of the month of `day`."""
    last = (day.replace(day=1) + 32 * _DAY).replace(day=1) - _DAY
    while last.isoweekday() >= SATURDAY:
        last -= _DAY
    return last
