"""Quiet hours, excluded dates, calendar files and time zones in a file."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.declare.problems import BadValue, Reader, ask, choice, read_items, read_placed, read_zone, shown, wrong_type
from rota.declare.readers.values import read_record
from rota.model.errors import InvalidTimezone, Problem, RotaError
from rota.model.spec import QuietHours, QuietPolicy, Schedule
from rota.rules.schedule.blackouts import QuietWindow, canonical_windows, cover_the_week, parse_window
from rota.rules.schedule.timezone import zone
from rota.settings import Stamp, stamp_of

IGNORE = "ignore"
_HINT = 'write windows: ["00:00-07:00"], or {windows: ["00:00-07:00"], policy: defer}'


class WrittenQuiet(Struct, frozen=True):
    """Quiet hours with what was left out: no windows and no policy are the file's, no zone is that of the job."""

    windows: tuple[str, ...] = ()
    policy: QuietPolicy | None = None
    timezone: str = ""
    ignored: bool = False


def read_own_quiet_hours(value: Any) -> WrittenQuiet:
    """Return the quiet hours of one job: as those of all, `ignore`, or a map that says only what differs."""
    return WrittenQuiet(ignored=True) if value == IGNORE else read_quiet_hours(value, own=True)


def read_quiet_hours(value: Any, *, own: bool = False) -> WrittenQuiet:
    """Return the quiet hours of all jobs: a list of windows, or a map with a policy."""
    windows = partial(_windows, own=own)
    if not isinstance(value, Mapping):
        return WrittenQuiet(windows(value))
    if not value:
        raise BadValue("is empty", code="missing_value", hint=_HINT)
    readers: dict[str, Reader] = {"windows": windows, "policy": choice(QuietPolicy), "timezone": read_zone}
    needs = {} if own else {"windows": "has no `windows`"}
    return WrittenQuiet(**read_record(value, readers, hint=_HINT, needs=needs))


def _windows(value: Any, *, own: bool) -> tuple[str, ...]:
    written = [value] if isinstance(value, str) else value
    if not isinstance(written, list):
        hint = _HINT + (f", or `quiet_hours: {IGNORE}`" if own else "")
        raise wrong_type(value, "a list of windows", hint=hint)
    if not written:
        hint = f"name a window, or write `quiet_hours: {IGNORE}`" if own else "name a window, or remove the line"
        raise BadValue("is an empty list", hint=hint)
    windows = [_window(value)] if isinstance(value, str) else read_items(written, _window)
    if cover_the_week(windows):
        hint = "leave a minute of the week, or disable the jobs with `enabled: false`"
        raise BadValue("leave no minute of the week", code="quiet_window", hint=hint)
    return canonical_windows(windows)


def _window(text: Any) -> QuietWindow:
    if not isinstance(text, str):
        raise wrong_type(text, "a window of quiet hours", hint='put it in quotes: "00:00-07:00"')
    return ask(parse_window, text)


def quiet_of(written: WrittenQuiet | None, file: QuietHours | None, schedule: Schedule) -> QuietHours | None:
    """Return the quiet hours of a schedule; those of the file only where they mean something to it.

    Raise BadValue where its own have no effect: every key that is written has an effect.
    """
    if written is None:
        return file if file is not None and means_something(file, schedule) else None
    if written.ignored:
        return None
    if not written.windows and file is None:
        raise BadValue("has no `windows`, and the file has no quiet hours", code="missing_value", hint=_HINT)
    base = file if file is not None and not written.windows else QuietHours(written.windows, schedule.timezone)
    policy = written.policy or (file.policy if file is not None else QuietPolicy.DORMANT)
    hours = replace(base, policy=policy, timezone=written.timezone or base.timezone)
    if not means_something(hours, schedule):
        hint = "write {windows: […], policy: defer} or `policy: skip`, or an interval by mode"
        raise BadValue("`policy: dormant` has no effect without an interval by mode", code="no_effect", hint=hint)
    return hours


def means_something(quiet: QuietHours, schedule: Schedule) -> bool:
    """Return whether quiet hours have an effect: `dormant` acts on intervals by mode alone, the others on instants."""
    if schedule.manual or schedule.reboot:
        return False
    return quiet.policy is not QuietPolicy.DORMANT or schedule.by_mode is not None


def quiet_of_poll(file: QuietHours | None, schedule: Schedule) -> QuietHours | None:
    """Return the quiet hours of the poll: every policy slows it, so that running jobs still get their data."""
    if file is None or schedule.by_mode is None:
        return None
    return replace(file, policy=QuietPolicy.DORMANT)


def written_quiet(quiet: QuietHours, *, zone: str) -> Any:
    """Return quiet hours as a file writes them, where those of the key are read in `zone`."""
    keys: dict[str, Any] = {"windows": list(quiet.windows), "policy": str(quiet.policy)}
    return keys if quiet.timezone == zone else {**keys, "timezone": quiet.timezone}


_DAY = timedelta(days=1)
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII)
_DURATION = re.compile(r"\+?P(?:(\d{1,4})W|(\d{1,4})D)", re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9-]+)((?:;[^:\"]*(?:\"[^\"]*\"[^:\"]*)*)?):(.*)", re.DOTALL)
CODE = "calendar"
MAX_DAYS = 3660
"""Days that one event may last, and years that one may come again."""
DAYS_LIMIT = 10_000
_ALL_DAY = "only all-day events can be excluded: use a date without a time, or remove the event"
_YEARLY = "only FREQ=YEARLY is supported, with COUNT or UNTIL; list the dates in `except`"


def _bad_line(line: int, message: str, *, hint: str = "") -> BadValue:
    return BadValue(message, code=CODE, hint=hint, at=(line,))


class _CalendarLine(Struct, frozen=True):
    """A line as it is meant, its folds undone, and the number of its first one in the file."""

    number: int
    name: str
    value: str


class _Event(Struct):
    line: int
    fields: dict[str, _CalendarLine] = field(default_factory=dict)


def days_of(text: str) -> tuple[str, ...]:
    """Return the days of all events, as 2026-12-25, those of every year as 12-25, in order."""
    found: set[str] = set()
    for event in _events(_lines(text)):
        found.update(_days(event))
        if len(found) > DAYS_LIMIT:
            raise _bad_line(event.line, f"has more than {DAYS_LIMIT:,} days up to here", hint="use a shorter calendar")
    return tuple(sorted(found))


def _lines(text: str) -> Iterator[_CalendarLine]:
    number, begun = 1, ""
    for place, line in enumerate(text.splitlines(), start=1):
        if line[:1] in (" ", "\t"):
            begun += line[1:]
            continue
        yield from _line(number, begun)
        number, begun = place, line
    yield from _line(number, begun)


def _line(number: int, text: str) -> Iterator[_CalendarLine]:
    if not text.strip():
        return
    match = _NAME.fullmatch(text)
    if match is None:
        raise _bad_line(number, "is not a line of a calendar", hint="is this really an .ics file?")
    yield _CalendarLine(number, match[1].upper(), match[3].strip())


def _events(lines: Iterator[_CalendarLine]) -> Iterator[_Event]:
    """Yield the events; what other components hold is passed over."""
    open_parts: list[str] = []
    event: _Event | None = None
    number = 1
    for line in lines:
        number = line.number
        if line.name == "BEGIN":
            open_parts.append(line.value.upper())
            event = _Event(line.number) if open_parts[-1] == "VEVENT" else event
        elif line.name == "END":
            if not open_parts or open_parts.pop() != line.value.upper():
                raise _bad_line(line.number, f"ends {line.value}, which does not match the last BEGIN")
            if event is not None and line.value.upper() == "VEVENT":
                yield event
                event = None
        elif not open_parts:
            raise _bad_line(line.number, "does not begin with BEGIN:VCALENDAR", hint="is this really an .ics file?")
        elif event is not None and open_parts[-1] == "VEVENT":
            event.fields.setdefault(line.name, line)
    if open_parts:
        raise _bad_line(number, f"ends inside {open_parts[-1]}", hint="the file is cut off; fetch it again")


def _days(event: _Event) -> Iterator[str]:
    status = event.fields.get("STATUS")
    if status is not None and status.value.upper() == "CANCELLED":
        return
    for name in ("RDATE", "RECURRENCE-ID"):
        if name in event.fields:
            raise _bad_line(event.fields[name].number, f"{name} is not supported", hint=_YEARLY)
    start = event.fields.get("DTSTART")
    if start is None:
        raise _bad_line(event.line, "begins an event without DTSTART", hint="remove the event, or fetch the file again")
    first = _date(start)
    length = _length(event, first)
    excluded, rule = event.fields.get("EXDATE"), event.fields.get("RRULE")
    left_out = {_date(excluded, text) for text in excluded.value.split(",")} if excluded is not None else set()
    years = [first] if rule is None else _yearly(rule, first)
    if years is None and excluded is not None:
        raise _bad_line(excluded.number, "EXDATE of an event without an end is not supported", hint=_YEARLY)
    for day in [first] if years is None else years:
        if day not in left_out:
            written = (f"{day + step * _DAY}" for step in range(length))
            yield from (one[5:] if years is None else one for one in written)


def _date(line: _CalendarLine, text: str | None = None) -> date:
    written = _DATE.fullmatch(line.value if text is None else text.strip())
    try:
        if written is not None:
            return date(int(written[1]), int(written[2]), int(written[3]))
    except ValueError:
        raise _bad_line(line.number, f"{line.name} names a day that does not exist: {line.value[:40]}") from None
    raise _bad_line(line.number, f"{line.name} is {line.value[:40]!r}, not a day such as 20261225", hint=_ALL_DAY)


def _length(event: _Event, first: date) -> int:
    """Return how many days an event lasts; the day that ends it is not one of them."""
    end, duration = event.fields.get("DTEND"), event.fields.get("DURATION")
    length = 1
    if end is not None:
        length = (_date(end) - first).days or 1  # some write the same day twice
    elif duration is not None:
        match = _DURATION.fullmatch(duration.value.upper())
        if match is None:
            raise _bad_line(duration.number, f"DURATION is {duration.value[:40]!r}, not days", hint=_ALL_DAY)
        length = 7 * int(match[1] or 0) + int(match[2] or 0) or 1
    if not 1 <= length <= MAX_DAYS:
        line = end or duration
        assert line is not None
        raise _bad_line(line.number, f"the event would last {length} days", hint="correct its end")
    return length


def _yearly(rule: _CalendarLine, first: date) -> list[date] | None:
    """Return the days on which a rule lets an event begin; None: every year."""
    parts = dict(part.partition("=")[::2] for part in rule.value.upper().rstrip(";").split(";"))
    known = {"FREQ": "YEARLY", "INTERVAL": "1", "BYMONTH": f"{first.month}", "BYMONTHDAY": f"{first.day}"}
    for name, value in parts.items():
        if name not in ("COUNT", "UNTIL", "WKST") and known.get(name) != value.lstrip("+0"):
            raise _bad_line(rule.number, f"RRULE has {name}={value}", hint=_YEARLY)
    if "FREQ" not in parts:
        raise _bad_line(rule.number, "RRULE has no FREQ", hint=_YEARLY)
    if "COUNT" not in parts and "UNTIL" not in parts:
        return None
    return _bounded(rule, first, count=parts.get("COUNT"), until=parts.get("UNTIL"))


def _bounded(rule: _CalendarLine, first: date, *, count: str | None, until: str | None) -> list[date]:
    if count is not None and not (count.isdecimal() and 1 <= int(count) <= MAX_DAYS):
        raise _bad_line(rule.number, f"RRULE has COUNT={count}", hint=_YEARLY)
    last = date.max if until is None else _date(rule, until[:8])
    days: list[date] = []
    for year in range(first.year, last.year + 1):
        if count is not None and len(days) >= int(count):
            break
        day = _in_year(first, year)
        if day is not None and day <= last:
            days.append(day)
    return days


def _in_year(first: date, year: int) -> date | None:
    try:
        return first.replace(year=year)
    except ValueError:  # the 29th of February
        return None


KEY = "except"
FILE_END = ".ics"
SIZE_LIMIT = 5_000_000
LEAP_YEAR = 2000
_ONE_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EVERY_YEAR = re.compile(r"\d\d-\d\d", re.ASCII)
_EXCLUDE_HINT = "write dates and files: [2026-12-25, 12-24, holidays.ics]; 12-24 is of every year"


def read_except(value: Any) -> dict[int, str]:
    """Return dates, days of every year, and the names of calendar files, by their places in the list."""
    if not isinstance(value, list):
        raise wrong_type(value, "a list of dates and .ics files", hint=_EXCLUDE_HINT)
    return read_placed(value, _item)


def _item(item: Any) -> str:
    text = item.strip() if isinstance(item, str) else ""
    if text.lower().endswith(FILE_END):
        return text
    if not _ONE_DAY.fullmatch(text) and not _EVERY_YEAR.fullmatch(text):
        raise wrong_type(item, "a date or an .ics file", hint=_EXCLUDE_HINT)
    try:
        date.fromisoformat(text if len(text) > len("12-24") else f"{LEAP_YEAR}-{text}")
    except ValueError as error:
        raise BadValue(f"{shown(text)} is not a day: {error}", code=CODE, hint=_EXCLUDE_HINT) from None
    return text


class Calendars(Struct, frozen=True):
    """Reads the calendar files of one project, each once; `looked_at` are all files that it looked at."""

    place: Callable[[str], str]
    """Returns the absolute path of what a file names."""
    looked_at: MutableMapping[Path, Stamp | None] = field(default_factory=dict)
    _known: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    def days(self, text: str) -> tuple[str, ...]:
        """Return the days that a file names; raise BadValue with the line that cannot be read."""
        path = Path(self.place(text))
        if path not in self._known:
            self.looked_at[path] = stamp_of(path)
            self._known[path] = _read_exclusion(path, text)
        return self._known[path]


def _read_exclusion(path: Path, text: str) -> tuple[str, ...]:
    try:
        with path.open("rb") as stream:
            content = stream.read(SIZE_LIMIT + 1)
        if len(content) > SIZE_LIMIT:
            raise BadValue("is larger than 5 MB", hint="use a shorter calendar")
        return days_of(content.decode("utf-8-sig"))
    except OSError as error:
        why = error.strerror or str(error)
        hint = "correct the path, which is relative to the project"
        raise BadValue(f"{text} cannot be read: {why}", code=CODE, hint=hint) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadValue(f"{text}:{line}: is not UTF-8", code=CODE, hint="save it as UTF-8") from None
    except BadValue as error:
        [problem] = error.problems
        place = "".join(f":{number}:" for number in problem.at)
        raise BadValue(f"{text}{place} {problem.message}", code=CODE, hint=problem.hint) from None


def resolve_except(keys: dict[str, Any], calendars: Calendars) -> list[Problem]:
    """Put days in the place of what `except` names, in `keys`, in order; return what cannot be read."""
    problems: list[Problem] = []
    days: set[str] = set()
    for index, item in keys.get(KEY, {}).items():
        try:
            days.update(calendars.days(item) if item.lower().endswith(FILE_END) else (item,))
        except BadValue as error:
            problems += [problem.below(index) for problem in error.problems]
    if KEY in keys:
        keys[KEY] = tuple(sorted(day for day in days if day[5:] not in days))
        yearly = {day for day in keys[KEY] if len(day) == len("12-24")} - {"02-29"}
        if len(yearly) >= 365:
            problems.append(Problem("leaves no day of the year", CODE, hint="disable the job with `enabled: false`"))
    return problems


_MARK = "zoneinfo/"


def local_zone(environment: Mapping[str, str], etc: Path = Path("/etc")) -> str:
    """Return the IANA name of this machine's zone: TZ, /etc/timezone, or where /etc/localtime points to."""
    for name in (environment.get("TZ", "").lstrip(":"), _written(etc / "timezone"), _link(etc / "localtime")):
        if name and (known := _known(name.rpartition(_MARK)[2] if _MARK in name else name)):
            return known
    hint = "write an IANA name such as Europe/Paris, or UTC"
    raise RotaError("the time zone of this machine has no name (TZ, /etc/timezone, /etc/localtime)", hint=hint)


def plain_name(name: str) -> str:
    """Return a zone's name as a person would write it: the many names of UTC are one.

    >>> plain_name("Etc/UTC"), plain_name("Europe/Paris")
    ('UTC', 'Europe/Paris')
    """
    return "UTC" if name in ("Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu") else name


def _written(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:100]
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        target = os.readlink(path)
    except OSError:
        return ""
    return target if _MARK in target else ""


def _known(name: str) -> str | None:
    try:
        zone(name)
    except InvalidTimezone:
        return None
    return name
