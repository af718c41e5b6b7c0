"""Calendar times of systemd: reading, translation to cron, and an evaluation of its own."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from rota.declare.importers.translation import Reading, Unmappable, duration_text, taken_from
from rota.model.errors import InvalidTimezone
from rota.rules.schedule.timezone import zone

_SHORT = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKS = {frozenset(range(7 * week + 1, 7 * week + 8)): week + 1 for week in range(4)}
"""The days of each whole week of a month: with a weekday they are its n-th of the month."""
_PART = re.compile(r"(?:(?P<all>\*)|(?P<first>\d+)(?:\.\.(?P<last>\d+))?)(?:/(?P<step>\d+))?")
_LAST_YEAR = 9000


class CalendarSpec(Struct, frozen=True):
    """One calendar time; None is every value. `from_end` counts days from the end of the month, 1 is the last."""

    weekdays: frozenset[int] | None = None
    years: frozenset[int] | None = None
    months: frozenset[int] | None = None
    days: frozenset[int] | None = None
    from_end: frozenset[int] | None = None
    hours: frozenset[int] | None = None
    minutes: frozenset[int] | None = None
    seconds: frozenset[int] | None = frozenset({0})
    timezone: str = ""

    @property
    def second(self) -> int | None:
        """The only second, None if there are several."""
        return next(iter(self.seconds)) if self.seconds is not None and len(self.seconds) == 1 else None


def parse_calendar(text: str) -> CalendarSpec:
    """Return the meaning of an `OnCalendar=`; raise Unmappable if it cannot be read."""
    words = text.split()
    timezone = ""
    if len(words) > 1 and _is_zone(words[-1]):
        timezone = "UTC" if words[-1] in ("UTC", "Z") else words[-1]
        words = words[:-1]
    if len(words) == 1 and words[0].lower() in _SHORT:
        words = _SHORT[words[0].lower()].split()
    weekdays = _weekdays(words.pop(0), text) if words and words[0][:1].isalpha() else None
    times = [word for word in words if ":" in word]
    dates = [word for word in words if ":" not in word]
    if len(times) > 1 or len(dates) > 1 or (not words and weekdays is None):
        raise Unmappable(f"`{text}` is not a calendar time")
    clock = times[0].split(":") if times else ["0", "0", "0"]
    years, months, days, from_end = _date(dates[0] if dates else "*-*-*", text)
    hours, minutes, seconds = (*clock, "0")[:3] if len(clock) in (2, 3) else _unreadable(text)
    return CalendarSpec(
        weekdays=weekdays,
        years=years,
        months=months,
        days=days,
        from_end=from_end,
        hours=_values(hours, 0, 23, text),
        minutes=_values(minutes, 0, 59, text),
        seconds=_values(seconds, 0, 59, text),
        timezone=timezone,
    )


def _is_zone(word: str) -> bool:
    if not word[:1].isalpha() or word.lower() in _SHORT:
        return False
    try:
        zone("UTC" if word == "Z" else word)
    except InvalidTimezone:
        return False
    return True


def _unreadable(text: str) -> Any:
    raise Unmappable(f"`{text}` is not a calendar time")


def _weekdays(word: str, text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, word.split(",")):
        first, dots, last = part.replace("-", "..").partition("..")
        names = [one[:3].lower() for one in (first, last or first)]
        if not all(name in _WEEKDAYS for name in names):
            _unreadable(text)
        low, high = (_WEEKDAYS.index(name) for name in names)
        days = range(low, high + 1) if low <= high else [*range(low, 7), *range(high + 1)]
        found |= set(days if dots else [low])
    return frozenset(found)


def _date(
    word: str, text: str
) -> tuple[frozenset[int] | None, frozenset[int] | None, frozenset[int] | None, frozenset[int] | None]:
    match = re.fullmatch(r"(?:(?P<year>[^-~]+)-)?(?P<month>[^-~]+)(?P<mark>[-~])(?P<day>[^-~]+)", word)
    if match is None:
        return _unreadable(text)  # type: ignore[no-any-return]
    years = _values(match["year"] or "*", 1970, 2199, text)
    months = _values(match["month"], 1, 12, text)
    if match["mark"] == "~":
        return years, months, None, _values(match["day"], 1, 31, text, down=True)
    return years, months, _values(match["day"], 1, 31, text), None


def _values(word: str, low: int, high: int, text: str, *, down: bool = False) -> frozenset[int] | None:
    """Return the values of a component, None for all; `down` steps towards the end of the month."""
    if word == "*":
        return None
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            _unreadable(text)
        assert match is not None
        first = low if match["all"] else int(match["first"])
        step = int(match["step"] or 1)
        if match["last"]:
            ends = sorted((first, int(match["last"])))
            found |= set(range(ends[0], ends[1] + 1, step)) if not down else set(range(ends[1], ends[0] - 1, -step))
        elif match["step"] or match["all"]:
            found |= set(range(first, low - 1, -step)) if down else set(range(first, high + 1, step))
        else:
            found.add(first)
    if not found or not step or min(found) < low or max(found) > high:
        _unreadable(text)
    return None if found == set(range(low, high + 1)) else frozenset(found)


# Translation


def cron_of(specs: Sequence[CalendarSpec]) -> dict[str, Any]:
    """Return the keys of a schedule that is the union of some calendar times; raise Unmappable if none is."""
    if len(specs) == 1 and (special := _not_cron(specs[0])):
        return special
    expressions = list(dict.fromkeys(one for spec in specs for one in _expressions(spec)))
    return {"cron": expressions[0] if len(expressions) == 1 else expressions}


def _not_cron(spec: CalendarSpec) -> dict[str, Any]:
    """Return the schedule of a single instant, or of a few seconds."""
    fields = (spec.years, spec.months, spec.days, spec.hours, spec.minutes, spec.seconds)
    if spec.weekdays is None and all(field is not None and len(field) == 1 for field in fields):
        numbers = [next(iter(field)) for field in fields if field]
        return {"at": f"{datetime(*numbers):%Y-%m-%d %H:%M:%S}"}  # type: ignore[arg-type]  # noqa: DTZ001
    seconds = sorted(spec.seconds) if spec.seconds is not None else list(range(60))
    step = seconds[1] if len(seconds) > 1 else 0
    others = (spec.weekdays, spec.years, spec.months, spec.days, spec.from_end, spec.hours, spec.minutes)
    if step and seconds == list(range(0, 60, step)) and not 60 % step and all(other is None for other in others):
        return {"interval": duration_text(step), "anchor": "fixed", "start_at": "2026-01-01"}
    return {}


def _expressions(spec: CalendarSpec) -> Iterator[str]:
    if spec.years is not None:
        raise Unmappable("it names years, which cron does not know")
    if spec.second is None:
        raise Unmappable("it names several seconds of a minute, which cron does not know")
    clock = f"{_field(spec.minutes, 0, 59)} {_field(spec.hours, 0, 23)}"
    months = _field(spec.months, 1, 12)
    if spec.weekdays is None:
        yield f"{clock} {_days(spec)} {months} *"
    elif spec.days is None and spec.from_end is None:
        yield f"{clock} * {months} {_weekday_field(spec.weekdays)}"
    else:
        for weekday in sorted(spec.weekdays):
            yield f"{clock} * {months} {_nth(spec, weekday)}"


def _days(spec: CalendarSpec) -> str:
    if spec.from_end is None:
        return _field(spec.days, 1, 31)
    if spec.from_end == {1}:
        return "L"
    raise Unmappable("it counts days from the end of the month; cron knows the last day alone")


def _nth(spec: CalendarSpec, weekday: int) -> str:
    if spec.from_end == frozenset(range(1, 8)):
        return f"{(weekday + 1) % 7}L"
    if spec.days is not None and spec.days in _WEEKS:
        return f"{_WEEKDAYS[weekday]}#{_WEEKS[spec.days]}"
    raise Unmappable("it needs a weekday and a day of the month at once; cron fires on either")


def _weekday_field(weekdays: frozenset[int]) -> str:
    days = sorted(weekdays)
    if len(days) > 2 and days == list(range(days[0], days[-1] + 1)):
        return f"{_WEEKDAYS[days[0]]}-{_WEEKDAYS[days[-1]]}"
    return ",".join(_WEEKDAYS[day] for day in days)


def _field(values: frozenset[int] | None, low: int, high: int) -> str:
    if values is None:
        return "*"
    found = sorted(values)
    step = found[1] - found[0] if len(found) > 2 else 0
    if step > 1 and found == list(range(found[0], high + 1, step)) and found[0] == low:
        return f"*/{step}"
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"{found[0]}-{found[-1]}"
    if step > 1 and found == list(range(found[0], found[-1] + 1, step)):
        return f"{found[0]}-{found[-1]}/{step}"
    return ",".join(map(str, found))


# Evaluation, with neither cron nor rota's rules


def reading_of(specs: Sequence[CalendarSpec], timezone: str) -> Reading:
    """Return the reading of calendar times in a zone, each at its full minute where it has one second."""
    return taken_from(partial(_instants, specs, zone(timezone)))


def _instants(specs: Sequence[CalendarSpec], tz: ZoneInfo, after: datetime) -> Iterator[datetime]:
    day, latest = after.astimezone(tz).date(), after
    while day.year < _LAST_YEAR:
        found = sorted({at for spec in specs if _on(spec, day) for at in _of_day(spec, day, tz)})
        for at in found:
            if at > latest:
                latest = at
                yield at
        day += timedelta(days=1)


def _on(spec: CalendarSpec, day: date) -> bool:
    last = (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return (
        (spec.years is None or day.year in spec.years)
        and (spec.months is None or day.month in spec.months)
        and (spec.days is None or day.day in spec.days)
        and (spec.from_end is None or last.day - day.day + 1 in spec.from_end)
        and (spec.weekdays is None or day.weekday() in spec.weekdays)
    )


def _of_day(spec: CalendarSpec, day: date, tz: ZoneInfo) -> Iterator[datetime]:
    seconds = [0] if spec.second is not None else sorted(spec.seconds or range(60))
    for hour in sorted(spec.hours) if spec.hours is not None else range(24):
        for minute in sorted(spec.minutes) if spec.minutes is not None else range(60):
            for second in seconds:
                local = datetime.combine(day, time(hour, minute, second))
                yield from _utc(local, tz)


def _utc(local: datetime, tz: ZoneInfo) -> Iterator[datetime]:
    """Yield the instants of a local time: none in a gap, the first of two where the clock is set back."""
    at = local.replace(tzinfo=tz).astimezone(UTC)
    if at.astimezone(tz).replace(tzinfo=None) == local:
        yield at
