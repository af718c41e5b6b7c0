"""Schedules in words, such as `weekdays at 9:30` or `every 15 minutes`, read as the keys of a job."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest

from msgspec import Struct, field

from rota.model.clock import UNITS
from rota.model.errors import InvalidValue
from rota.rules.schedule.timezone import localize, zone

When = dict[str, str | list[str]]
EXAMPLES = "write `30 2 * * *`, `every 15m`, `weekdays at 9:30`, `fridays at 18:00` or `2026-12-24 08:30`"
MAX_LENGTH = 200
BY_HAND = frozenset({"", "by hand", "manual", "never", "none"})
ALIASES = {"hourly": "@hourly", "weekly": "@weekly", "yearly": "@yearly", "annually": "@yearly"}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CRON = re.compile(r"@.*|[0-9*][0-9*/,-]* [0-9*/,-]+ [^ ]+ [^ ]+( [^ ]+){0,2}", re.DOTALL)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*", re.DOTALL)
_LENGTH = re.compile(
    r"(?P<count>[0-9]{1,9}|an?|one|)\s*(?P<unit>seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)"
)
_TIME = re.compile(r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?(?P<half>am|pm)?")
_ORDINAL = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)")
_DAY = re.compile(r"(mon|tue|wed|thu|fri|sat|sun)(?:s|[a-z]*days?)?")
_NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
_FILLERS = frozenset({"every", "each", "on", "the", "of", "and", "in", "&", "o'clock", "day", "days", "daily", "a"})
_MONTHS = frozenset({"month", "months", "monthly"})
_NAMED = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}
_SETS = {"weekday": range(5), "workday": range(5), "weekend": range(5, 7)}


def read_schedule_text(text: str, *, tz: str, now: datetime) -> When:
    """Return the key of a schedule: `cron`, `interval` or `at`; none for a job that is started by hand.

    >>> now = datetime.fromisoformat("2026-11-15T19:41:07Z")
    >>> read_schedule_text("weekdays at 9:30 and 17:30", tz="UTC", now=now)
    {'cron': '30 9,17 * * mon-fri'}
    >>> read_schedule_text("every 15 minutes", tz="UTC", now=now)
    {'interval': '15m'}
    """
    written = " ".join(text.split())
    words = written.lower().rstrip(".")
    if words in BY_HAND:
        return {}
    if len(written) > MAX_LENGTH:
        raise InvalidValue(f"a schedule of {len(written)} characters is too long", hint=EXAMPLES)
    if _CRON.fullmatch(words):
        return {"cron": written}
    if words in ALIASES:
        return {"cron": ALIASES[words]}
    if _DATE.fullmatch(words):
        return {"at": written}
    return _length(words, now=now, tz=tz) or _once(words, tz=tz, now=now) or _calendar(written, words)


def _length(words: str, *, tz: str, now: datetime) -> When | None:
    """Return the key of a duration: `every 15 min` repeats, `in 2 hours` runs once."""
    word, _, rest = words.partition(" ")
    later, written = word == "in", rest if word in ("every", "each", "in") else words
    match = _LENGTH.fullmatch(written)
    if match is None or (match["count"] == "" and (match["unit"] == "day" or written == words)):
        return None  # `every day` is a time of day, at midnight
    count = int(match["count"]) if match["count"].isdecimal() else 1
    if not later:
        return {"interval": f"{count}{match['unit'][0]}"}
    seconds = count * UNITS[match["unit"][0]]
    if seconds > timedelta(days=3660).total_seconds():
        raise InvalidValue(f"{words!r} is more than ten years away", hint="write a date: 2026-12-24 08:30")
    return {"at": _written(now.astimezone(zone(tz)) + timedelta(seconds=seconds))}


def _once(words: str, *, tz: str, now: datetime) -> When | None:
    word, _, rest = words.partition(" ")
    if word not in ("today", "tomorrow"):
        return None
    times = list(_times(rest.removeprefix("at ").split()))
    if len(times) != 1:
        raise _unclear(words, "names no time of day" if not times else "names several times")
    day = (now.astimezone(zone(tz)) + timedelta(days=word == "tomorrow")).date()
    hour, minute = times[0]
    local = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - of the zone, placed by localize
    return {"at": _written(localize(local, tz).astimezone(zone(tz)))}


def _written(local: datetime) -> str:
    return local.isoformat(timespec="seconds")


class _Said(Struct):
    """The parts of a text; `named`: it says more than times."""

    times: list[tuple[int, int]] = field(default_factory=list)
    weekdays: set[int] = field(default_factory=set)
    dates: list[str] = field(default_factory=list)
    nth: int | None = None
    monthly: bool = False
    named: bool = False


def _calendar(written: str, words: str) -> When:
    said = _Said()
    parts = re.split(r"[ ,]+", words.replace(" to ", "-").replace(" through ", "-").replace(" - ", "-"))
    days, times = _split_times(parts)
    for part in filter(None, days):
        if not _take(part, said):
            raise _unclear(written, f"has {part[:40]!r}, which is not a day")
    said.times = list(_times(times)) or [(0, 0)]
    if not said.named:
        raise _unclear(written, "has no days")
    dates, weekdays = _dates(written, said)
    by_minute: dict[int, list[int]] = {}
    for hour, minute in sorted(set(said.times)):
        by_minute.setdefault(minute, []).append(hour)
    crons = [
        f"{minute} {','.join(map(str, hours))} {dates} * {weekdays}" for minute, hours in sorted(by_minute.items())
    ]
    return {"cron": crons[0] if len(crons) == 1 else crons}


def _split_times(parts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words about days, and those about times of day: words after `at`, or words that look like a time."""
    days, times, inside = list[str](), list[str](), False
    for part in parts:
        if part == "at":
            inside = True
        elif part in _NAMED or part in ("am", "pm") or (":" in part) or re.fullmatch(r"[0-9]{1,2}(am|pm)", part):
            times.append(part)
            inside = True
        elif inside and part.isdecimal():
            times.append(part)
        else:
            inside = inside and part in ("and", "&", "")
            days.append(part)
    return days, times


def _take(part: str, said: _Said) -> bool:
    """Note the meaning of a word; return whether it has one."""
    if part in _MONTHS:
        said.monthly = said.named = True
        return True
    if part in _FILLERS:
        said.named = said.named or part in ("every", "each", "daily", "day", "days")
        return True
    said.named = True
    if part in _NTH:
        said.nth = _NTH[part]
        return True
    if match := _ORDINAL.fullmatch(part):
        said.dates.append(match[1])
        return 1 <= int(match[1]) <= 31
    first, dash, last = part.partition("-")
    days = _days(first) if not dash else _span(first, last)
    said.weekdays.update(days)
    return bool(days)


def _days(word: str) -> Sequence[int]:
    days = _SETS.get(word.removesuffix("s"))
    if days is not None:
        return days
    match = _DAY.fullmatch(word)
    return () if match is None else (DAYS.index(match[1]),)


def _span(first: str, last: str) -> Sequence[int]:
    since, until = _days(first), _days(last)
    if len(since) != 1 or len(until) != 1:
        return ()
    return [day % 7 for day in range(since[0], since[0] + (until[0] - since[0]) % 7 + 1)]


def _dates(written: str, said: _Said) -> tuple[str, str]:
    """Return the fields for the day of the month and the weekday."""
    if said.nth is not None:
        return _nth(written, said)
    if said.dates and said.weekdays:
        raise _unclear(written, "names dates and weekdays")
    if said.dates:
        return ",".join(sorted(said.dates, key=int)), "*"
    return ("1", "*") if said.monthly and not said.weekdays else ("*", _weekdays(sorted(said.weekdays)))


def _nth(written: str, said: _Said) -> tuple[str, str]:
    """Return the fields of `the last day of the month` and `the first monday`."""
    if said.dates or len(said.weekdays) > 1:
        raise _unclear(written, "names more than one day of the month")
    if not said.weekdays:
        if said.nth in (1, -1):
            return ("1" if said.nth == 1 else "L"), "*"
        raise _unclear(written, "has no day")
    (day,) = said.weekdays
    return "*", f"{(day + 1) % 7}L" if said.nth == -1 else f"{DAYS[day]}#{said.nth}"


def _weekdays(days: Sequence[int]) -> str:
    if len(days) in (0, 7):
        return "*"
    if len(days) > 2 and list(days) == list(range(days[0], days[-1] + 1)) and days[-1] < 6:
        return f"{DAYS[days[0]]}-{DAYS[days[-1]]}"
    return ",".join(DAYS[day] for day in days)


def _times(parts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the times of day; `am` or `pm` may be a word of its own."""
    for part, following in zip_longest(parts, parts[1:], fillvalue=""):
        if part in ("am", "pm", "and", ""):
            continue
        yield _NAMED.get(part) or _time(part, following if following in ("am", "pm") else "")


def _time(part: str, half: str) -> tuple[int, int]:
    match = _TIME.fullmatch(part)
    half = (match["half"] or half) if match else ""
    hour, minute = (int(match["hour"]), int(match["minute"] or 0)) if match else (99, 0)
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0) if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise _unclear(part + (f" {half}" if half else ""), "is not a time of day")
    return hour, minute


def _unclear(text: str, why: str) -> InvalidValue:
    return InvalidValue(f"the schedule {text!r} {why}", hint=EXAMPLES)


def write_schedule_text(keys: When) -> str:
    """Return the text of these keys; empty for a list of cron expressions."""
    text = next((keys[key] for key in ("cron", "interval", "at") if key in keys), "")
    return text if isinstance(text, str) else ""
