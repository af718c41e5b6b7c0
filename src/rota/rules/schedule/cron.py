"""Cron expressions: parsing, instants and their reading in English."""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

from cronsim import CronSim, CronSimError
from msgspec import Struct

from rota.model.amounts import counted
from rota.model.errors import CronCharacters, CronFields, CronNeverFires, CronRange, CronStep, InvalidCron
from rota.rules.schedule.timezone import end_of_gap, instants_of_wall, zone

MAX_LENGTH = 100
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EXAMPLE = 'five fields are minute, hour, day of month, month, weekday: "30 2 * * mon-fri"'
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_CHARACTERS = r"(?a)[0-9A-Za-z*,/#?@ \t.+_-]*"
_RANGED = r"(?s)(?P<first>\*|[^-/]*)(?:-(?P<last>[^-/]*))?(?:/(?P<step>[^/]*))?"
_NUMBER = r"(?a)[0-9]+"


class _Field(Struct, frozen=True):
    name: str
    low: int
    high: int
    example: str
    words: tuple[str, ...] = ()
    values: str = ""

    @property
    def allowed(self) -> str:
        return f"the {self.name} is {self.low}-{self.high}{self.values}, for example {self.example}"

    @property
    def span(self) -> int:
        """The largest step with a second value."""
        return len(self.words) - 1 if self.words else self.high - self.low


MINUTE = _Field("minute", 0, 59, "0, */15 or 5,35")
HOUR = _Field("hour", 0, 23, "2, */6 or 9-17")
DAY = _Field("day of month", 1, 31, "1, 1,15 or L", values=", L (last day) or LW (last day from Monday to Friday)")
MONTH = _Field("month", 1, 12, "1, jan or 1-6", _MONTHS, ", or jan-dec")
WEEKDAY = _Field(
    "weekday", 0, 7, "mon-fri, 0 (Sunday), 5L (last Friday) or mon#1 (first Monday)", _WEEKDAYS, ", or sun-sat"
)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def normalise(text: str) -> str:
    """Return `text` with aliases expanded, single spaces, upper-case names and plain numbers, or raise InvalidCron.

    >>> normalise("*/5  9-17 * * mon-fri")
    '*/5 9-17 * * MON-FRI'
    >>> normalise("@daily")
    '0 0 * * *'
    """
    _check_characters(text)
    words = text.split()
    if words and words[0].startswith("@"):
        return _expand(words)
    if len(words) != len(FIELDS):
        raise _wrong_count(text, words)
    return " ".join(_field(word.upper(), field) for word, field in zip(words, FIELDS, strict=True))


def _check_characters(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise CronCharacters(
            f"the cron expression has {len(text)} characters, at most {MAX_LENGTH} are allowed",
            hint="write a list of shorter expressions",
        )
    if re.fullmatch(_CHARACTERS, text):
        return
    bad = next(character for character in text if not re.fullmatch(_CHARACTERS, character))
    hint = f"use 0-9, names and * , - / # L; {EXAMPLE}"
    raise CronCharacters(f"cron {text!r} contains {bad!r}, which is not allowed", hint=hint)


def _expand(words: list[str]) -> str:
    name = words[0].lower()
    if name in ALIASES and len(words) == 1:
        return ALIASES[name]
    if name == "@every":
        duration = words[1] if len(words) == 2 else "1h"
        hint = f"write `interval: {duration}` instead"
        raise InvalidCron(f"cron {' '.join(words)!r} is not a time of day", hint=hint)
    if name == "@reboot":
        hint = 'a job with `cron: "@reboot"` alone runs at each boot; times are written like @hourly'
        raise InvalidCron(f"cron {words[0]!r} is not a time and cannot be combined with others", hint=hint)
    raise InvalidCron(f"unknown cron alias {' '.join(words)!r}", hint=f"use one of {', '.join(ALIASES)}")


def _wrong_count(text: str, words: list[str]) -> CronFields:
    if len(words) == 6:
        return CronFields(
            f"cron {text!r} has six fields, which is ambiguous: seconds are not supported",
            hint=f'without seconds it is "{" ".join(words[1:])}", without a year "{" ".join(words[:5])}"; '
            "for less than a minute write `interval: 30s`",
        )
    count = counted(len(words), "field") if words else "no fields"
    return CronFields(f"cron {text!r} has {count}, not five", hint=EXAMPLE)


def _field(word: str, field: _Field) -> str:
    terms = word.split(",")
    if len(terms) > 1 and "*" in terms:
        raise _wrong(CronRange, field, word, "has `*` in a list", hint="write `*` alone, or only the values")
    return ",".join(_term(term, field) for term in terms)


def _term(term: str, field: _Field) -> str:
    if not term:
        raise _wrong(CronRange, field, term, "is empty")
    special = _SPECIAL.get(field.name)
    if special and (read := special(term)):
        return read
    match = re.fullmatch(_RANGED, term)
    if match is None:
        raise _wrong(CronRange, field, term, _trouble(term))
    return _ranged(term, field, match)


def _ranged(term: str, field: _Field, match: re.Match[str]) -> str:
    step = None if match["step"] is None else _step(match["step"], field, term)
    suffix = "" if step is None else f"/{step}"
    if match["first"] == "*":
        if match["last"] is not None:
            raise _wrong(CronRange, field, term, "mixes `*` with a range")
        return f"*{suffix}"
    first = _value(match["first"], field, term)
    if match["last"] is None:
        return f"{_written(match['first'])}{suffix}"
    last = _value(match["last"], field, term)
    if last < first:
        raise _backwards(term, field, first=first, last=last)
    if first == last:
        return _written(match["first"])
    return f"{_written(match['first'])}-{_written(match['last'])}{suffix}"


def _written(value: str) -> str:
    return str(int(value)) if value.isdigit() else value


def _value(value: str, field: _Field, term: str) -> int:
    if value in field.words:
        return field.words.index(value) + (1 if field is MONTH else 0)
    if not re.fullmatch(_NUMBER, value):
        raise _wrong(CronRange, field, term, _trouble(term))
    if not field.low <= int(value) <= field.high:
        raise _wrong(CronRange, field, term, f"is outside {field.low}-{field.high}")
    return int(value)


def _step(value: str, field: _Field, term: str) -> int:
    if not re.fullmatch(_NUMBER, value):
        raise _wrong(CronStep, field, term, "has no whole number as its step")
    step = int(value)
    if step == 0:
        raise _wrong(CronStep, field, term, "has step 0")
    if step > field.span:
        raise _wrong(
            CronStep, field, term, f"has a step larger than the field ({field.span})", hint=_longer(step, field)
        )
    return step


def _longer(step: int, field: _Field) -> str:
    unit = {"minute": "m", "hour": "h", "day of month": "d"}.get(field.name)
    instead = f"for every {step}{unit} write `interval: {step}{unit}`; " if unit else ""
    return f"{instead}{field.allowed}"


def _backwards(term: str, field: _Field, *, first: int, last: int) -> InvalidCron:
    high = 6 if field is WEEKDAY else field.high
    start = f"{first}-{high}" if first < high else str(first)
    end = f"{field.low}-{last}" if last > field.low else str(last)
    return _wrong(CronRange, field, term, "runs backwards", hint=f"write {start},{end}; {field.allowed}")


def _trouble(term: str) -> str:
    if term[0] == "-":
        return "is negative"
    if term == "?":
        return "is not a value here, write `*`"
    if term[0] in "HR" and not term[1:2].isalpha():
        return "is random in other schedulers, write a fixed value and `jitter`"
    if re.fullmatch(r"[0-9]+W", term):
        return "means the nearest weekday, which is not supported"
    return "is not a value here"


def _wrong(error: type[InvalidCron], field: _Field, term: str, problem: str, *, hint: str = "") -> InvalidCron:
    return error(f"cron {field.name} {term.lower()!r} {problem}", hint=hint or field.allowed)


def _special_weekday(term: str) -> str | None:
    if term.endswith("L") and len(term) > 1:
        return f"{_value(term[:-1], WEEKDAY, term)}L"
    name, sign, nth = term.partition("#")
    if not sign:
        return None
    if nth not in {"1", "2", "3", "4", "5"}:
        raise _wrong(CronRange, WEEKDAY, term, "has no number 1-5 after `#`")
    return f"{_value(name, WEEKDAY, term)}#{nth}"


_SPECIAL: dict[str, Callable[[str], str | None]] = {
    DAY.name: lambda term: term if term in {"L", "LW"} else None,
    WEEKDAY.name: _special_weekday,
}


HORIZON_YEARS = 50
CACHED_GAPS = 4096
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_FIRST_YEAR, _LAST_YEAR = 3, 9997
_CALENDAR_CYCLE = (date(2000, 1, 1), date(2400, 1, 1))


class _Fields(Struct, frozen=True, eq=False):
    """A parsed expression: `minutes` of a matching day; `fixed`: no `*` in minute and hour."""

    days: CronSim
    minutes: Sequence[int]
    fixed: bool


class _Gap(NamedTuple):
    """Two moments without an instant between them: `instant` is the first after `after`, `day` its even day."""

    after: datetime
    instant: datetime
    day: "_EvenDay | None"


_latest: dict[tuple[tuple[str, ...], str], _Gap] = {}


@lru_cache(maxsize=4096)
def check_cron(text: str) -> str:
    """Return the normalised expression, or raise InvalidCron with field, value, allowed range and an example.

    >>> check_cron("@weekly")
    '0 0 * * 0'
    """
    expression = normalise(text)
    first, until = _CALENDAR_CYCLE
    try:
        fires = next(_days_from(_read(expression).days, first, until=until), None) is not None
    except CronSimError:  # everything else is checked before: what remains are days that no month has
        fires = False
    if not fires:
        hint = "use a day that one of the months has, or L for the last day: 0 0 L 2 *"
        raise CronNeverFires(f"cron {text!r} never fires: none of its months has that day", hint=hint)
    return expression


@lru_cache(maxsize=4096)
def _read(expression: str) -> _Fields:
    simulation = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - only its fields are used
    hours, minutes = sorted(simulation.hours), sorted(simulation.minutes)
    minutes_of_day = array("H", (60 * hour + minute for hour in hours for minute in minutes))
    minute_field, hour_field, *_ = expression.split()
    return _Fields(simulation, minutes_of_day, fixed=not (minute_field.startswith("*") or hour_field.startswith("*")))


def cron_next(expressions: tuple[str, ...], tz: str, after: datetime) -> datetime | None:
    """Return the first instant of the expressions strictly after `after`, in UTC; None if there is none for 50 years.

    >>> cron_next(("30 2 * * *",), "Europe/Paris", datetime(2026, 3, 28, 12, tzinfo=UTC)).isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    if after.tzinfo is not UTC:
        after = after.astimezone(UTC)
    gap = _latest.get((expressions, tz))
    if gap is None:
        return _look_further(expressions, tz, after)
    if gap.after <= after < gap.instant:
        return gap.instant  # many jobs share an expression, and no instant lies between the two
    day = gap.day
    if day is None or after < day.midnight or (later_that_day := day.first_after(after)) is None:
        return _look_further(expressions, tz, after)
    _latest[expressions, tz] = _Gap(after, later_that_day, day)
    return later_that_day


def _look_further(expressions: tuple[str, ...], tz: str, after: datetime) -> datetime | None:
    """Return the first instant after `after`, and cache it with its day."""
    every = [_next(_read(expression), tz, after) for expression in expressions]
    instant = every[0] if len(every) == 1 else min((at for at in every if at is not None), default=None)
    if instant is not None:
        day = _even_day(_read(expressions[0]), tz, _wall_date(instant, tz)) if len(every) == 1 else None
        if len(_latest) >= CACHED_GAPS:
            _latest.clear()
        _latest[expressions, tz] = _Gap(after, instant, day)
    return instant


def cron_previous(expressions: tuple[str, ...], tz: str, before: datetime) -> datetime | None:
    """Return the last instant of the expressions strictly before `before`, in UTC; None if there is none for 50 years.

    >>> cron_previous(("30 2 * * *",), "Europe/Paris", datetime(2026, 10, 25, 12, tzinfo=UTC)).isoformat()
    '2026-10-25T00:30:00+00:00'
    """
    before = before.astimezone(UTC)
    candidates = (_previous(_read(expression), tz, before) for expression in expressions)
    return max((at for at in candidates if at is not None), default=None)


def cron_count(expressions: tuple[str, ...], tz: str, *, first: datetime, last: datetime, at_most: int) -> int | None:
    """Return the number of instants from `first` to `last`, both included; None above `at_most`."""
    counted_instants: set[datetime] = set()
    readings = [_read(expression) for expression in expressions]
    for day in _dates(_wall_date(first, tz) - _DAY, until=_wall_date(last, tz) + _DAY):
        for fields in readings:
            if _matches(fields.days, day):
                counted_instants.update(at for at in _instants_of_day(fields, tz, day) if first <= at <= last)
        if len(counted_instants) > at_most:
            return None
    return len(counted_instants)


def _next(fields: _Fields, tz: str, after: datetime) -> datetime | None:
    if not _FIRST_YEAR <= after.year < _LAST_YEAR:
        return None
    today = _wall_date(after, tz)
    even = _even_day(fields, tz, today)  # on a day without a clock change nothing can come before its own instants
    if even is not None and (later_today := even.first_after(after)) is not None:
        return later_today
    until = date(min(after.year + HORIZON_YEARS, _LAST_YEAR), 12, 31)
    instant, instant_day = None, until
    for day in _days_from(fields.days, _neighbour(today, tz, -_DAY), until=until):
        if instant is not None and day > _neighbour(instant_day, tz, _DAY):
            break
        candidate = _instants_of_day(fields, tz, day).first_after(after)
        if candidate is not None and (instant is None or candidate < instant):
            instant, instant_day = candidate, day
    return instant


def _even_day(fields: _Fields, tz: str, day: date) -> "_EvenDay | None":
    """Return a matching day without a clock change, or None."""
    midnight = _even_midnight(tz, day)
    return None if midnight is None or not _matches_on(fields, day) else _EvenDay(midnight, fields.minutes)


@lru_cache(maxsize=4096)
def _matches_on(fields: _Fields, day: date) -> bool:
    return _matches(fields.days, day)


def _previous(fields: _Fields, tz: str, before: datetime) -> datetime | None:
    if not _FIRST_YEAR < before.year <= _LAST_YEAR:
        return None
    until = date(max(before.year - HORIZON_YEARS, _FIRST_YEAR), 1, 1)
    instant, instant_day = None, until
    for day in _days_from(fields.days, _neighbour(_wall_date(before, tz), tz, _DAY), until=until):
        if instant is not None and day < _neighbour(instant_day, tz, -_DAY):
            break
        candidate = _instants_of_day(fields, tz, day).last_before(before)
        if candidate is not None and (instant is None or candidate > instant):
            instant, instant_day = candidate, day
    return instant


def _neighbour(day: date, tz: str, step: timedelta) -> date:
    """Return `day`, or its neighbour if clocks change: clocks set back over midnight interleave two dates."""
    return day + step if _even_midnight(tz, day) is None else day


def _wall_date(at: datetime, tz: str) -> date:
    return at.astimezone(zone(tz)).date()


def _matches(days: CronSim, day: date) -> bool:
    return day.month in days.months and days.match_day(day)


def _days_from(days: CronSim, first: date, *, until: date) -> Iterator[date]:
    """Yield the matching dates from `first` to `until`, both included, in either direction."""
    return (day for day in _dates(first, until=until, months=days.months) if days.match_day(day))


def _dates(first: date, *, until: date, months: Collection[int] = range(1, 13)) -> Iterator[date]:
    """Yield the dates of `months` from `first` to `until`, without the other months."""
    back = until < first
    step = -_DAY if back else _DAY
    day = first
    while day >= until if back else day <= until:
        if day.month in months:
            yield day
            day += step
        else:
            day = day.replace(day=1) - _DAY if back else (day.replace(day=1) + 32 * _DAY).replace(day=1)


class _EvenDay(Struct, frozen=True):
    """The instants of a day without a clock change, computed on demand."""

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


class _UnevenDay(Struct, frozen=True):
    """The instants of a day with a clock change."""

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
    """Return the start of `day`, None if clocks change on it or at one of its ends."""
    place = zone(tz)
    ends = [
        datetime.combine(midnight, time(fold=fold), tzinfo=place) for midnight in (day, day + _DAY) for fold in (0, 1)
    ]
    return ends[0].astimezone(UTC) if len({end.utcoffset() for end in ends}) == 1 else None


@lru_cache(maxsize=1024)
def _uneven_day(fields: _Fields, tz: str, day: date) -> _UnevenDay:
    """Return the instants of a day with a clock change, as Debian's cron does.

    Fixed times fire once: after the gap, and the first time in a fold. The others fire whenever a clock shows them.
    """
    place = zone(tz)
    instants: set[datetime] = set()
    for minute in fields.minutes:
        wall = datetime.combine(day, time()) + minute * _MINUTE
        shown = instants_of_wall(wall, place)
        if fields.fixed:
            shown = shown[:1] or [end_of_gap(wall, place)]
        instants.update(shown)
    return _UnevenDay(sorted(instants))


@lru_cache(2_000)
def explain_cron(expressions: tuple[str, ...]) -> str:
    """Return cron expressions in words.

    >>> explain_cron(("30 2 * * *",))
    'at 02:30 every day'
    >>> explain_cron(("*/5 * * * *", "0 0 L * *"))
    'every 5 minutes, and at 00:00 on the last day of every month'
    """
    return ", and ".join(_explain(expression) for expression in expressions)


def _explain(expression: str) -> str:
    for shape, unit, whole in _EVEN_STEPS:
        if (match := re.fullmatch(shape, expression)) and whole % int(match[1]) == 0:
            return f"every {unit}" if match[1] == "1" else f"every {match[1]} {unit}s"
    if match := re.fullmatch(_DAILY, expression):
        return f"at {int(match[2]):02}:{int(match[1]):02} every day"
    text = _read(expression).days.explain().replace("day of month", "day of the month")
    return text[0].lower() + text[1:]


_EVEN_STEPS = ((r"\*/(\d+) \* \* \* \*", "minute", 60), (r"0 \*/(\d+) \* \* \*", "hour", 24))
_DAILY = r"(\d+) (\d+) \* \* \*"
"""The words of cronsim for these cost a command that lists jobs more than reading them."""
