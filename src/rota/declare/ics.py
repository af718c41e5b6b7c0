"""Calendar files (.ics, RFC 5545): the days of their all-day events. Anything else in an event is told, not guessed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta

_DAY = timedelta(days=1)
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII)
_DURATION = re.compile(r"\+?P(?:(\d{1,4})W|(\d{1,4})D)", re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9-]+)((?:;[^:\"]*(?:\"[^\"]*\"[^:\"]*)*)?):(.*)", re.DOTALL)
LONGEST = 3660
"""Days that one event may last, and years that one may come again."""
DAYS_LIMIT = 10_000
_ALL_DAY = "only all-day events can be excluded: give it a date without a time, or take it out of the file"
_YEARLY = "only FREQ=YEARLY is known, with COUNT or UNTIL; write the dates themselves into `except`"


class IcsProblem(ValueError):
    """A calendar file cannot be used: at which line, why, and what to do."""

    def __init__(self, line: int, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.line, self.message, self.hint = line, message, hint


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it is meant, its folds undone, and the number of its first one in the file."""

    number: int
    name: str
    value: str


@dataclass(slots=True)
class _Event:
    line: int
    fields: dict[str, _Line] = field(default_factory=dict)


def days_of(text: str) -> tuple[str, ...]:
    """Return the days of all events, as 2026-12-25, those of every year as 12-25, in order."""
    found: set[str] = set()
    for event in _events(_lines(text)):
        found.update(_days(event))
        if len(found) > DAYS_LIMIT:
            raise IcsProblem(
                event.line, f"has more than {DAYS_LIMIT:,} days up to here", hint="take a shorter calendar"
            )
    return tuple(sorted(found))


def _lines(text: str) -> Iterator[_Line]:
    number, begun = 1, ""
    for place, line in enumerate(text.splitlines(), start=1):
        if line[:1] in (" ", "\t"):
            begun += line[1:]
            continue
        yield from _line(number, begun)
        number, begun = place, line
    yield from _line(number, begun)


def _line(number: int, text: str) -> Iterator[_Line]:
    if not text.strip():
        return
    found = _NAME.fullmatch(text)
    if found is None:
        raise IcsProblem(number, "is no line of a calendar", hint="is this really an .ics file?")
    yield _Line(number, found[1].upper(), found[3].strip())


def _events(lines: Iterator[_Line]) -> Iterator[_Event]:
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
                raise IcsProblem(line.number, f"ends {line.value}, which is not what began last")
            if event is not None and line.value.upper() == "VEVENT":
                yield event
                event = None
        elif not open_parts:
            raise IcsProblem(line.number, "does not begin with BEGIN:VCALENDAR", hint="is this really an .ics file?")
        elif event is not None and open_parts[-1] == "VEVENT":
            event.fields.setdefault(line.name, line)
    if open_parts:
        raise IcsProblem(number, f"ends inside {open_parts[-1]}", hint="the file is cut off; fetch it again")


def _days(event: _Event) -> Iterator[str]:
    status = event.fields.get("STATUS")
    if status is not None and status.value.upper() == "CANCELLED":
        return
    for name in ("RDATE", "RECURRENCE-ID"):
        if name in event.fields:
            raise IcsProblem(event.fields[name].number, f"{name} is not known here", hint=_YEARLY)
    start = event.fields.get("DTSTART")
    if start is None:
        raise IcsProblem(
            event.line, "begins an event without DTSTART", hint="remove the event, or fetch the file again"
        )
    first = _date(start)
    length = _length(event, first)
    left_out = _left_out(event)
    rule = event.fields.get("RRULE")
    if rule is None:
        years: list[date] | None = [first]
    else:
        years = _yearly(rule, first)
    if years is None and left_out:
        raise IcsProblem(event.fields["EXDATE"].number, "EXDATE of an event without an end is not known", hint=_YEARLY)
    for day in [first] if years is None else years:
        if day not in left_out:
            written = (f"{day + step * _DAY}" for step in range(length))
            yield from (one[5:] if years is None else one for one in written)


def _date(line: _Line, text: str | None = None) -> date:
    written = _DATE.fullmatch(line.value if text is None else text.strip())
    try:
        if written is not None:
            return date(int(written[1]), int(written[2]), int(written[3]))
    except ValueError:
        raise IcsProblem(line.number, f"{line.name} names a day that does not exist: {line.value[:40]}") from None
    raise IcsProblem(line.number, f"{line.name} is {line.value[:40]!r}, not a day such as 20261225", hint=_ALL_DAY)


def _length(event: _Event, first: date) -> int:
    """Return how many days an event lasts; the day that ends it is not one of them."""
    end, duration = event.fields.get("DTEND"), event.fields.get("DURATION")
    length = 1
    if end is not None:
        length = (_date(end) - first).days or 1  # some write the same day twice
    elif duration is not None:
        found = _DURATION.fullmatch(duration.value.upper())
        if found is None:
            raise IcsProblem(duration.number, f"DURATION is {duration.value[:40]!r}, not days", hint=_ALL_DAY)
        length = 7 * int(found[1] or 0) + int(found[2] or 0) or 1
    if not 1 <= length <= LONGEST:
        line = end or duration
        assert line is not None
        raise IcsProblem(line.number, f"the event would last {length} days", hint="correct its end")
    return length


def _left_out(event: _Event) -> set[date]:
    line = event.fields.get("EXDATE")
    return set() if line is None else {_date(line, text) for text in line.value.split(",")}


def _yearly(rule: _Line, first: date) -> list[date] | None:
    """Return the days on which a rule lets an event begin; None: every year."""
    parts = dict(part.partition("=")[::2] for part in rule.value.upper().rstrip(";").split(";"))
    known = {"FREQ": "YEARLY", "INTERVAL": "1", "BYMONTH": f"{first.month}", "BYMONTHDAY": f"{first.day}"}
    for name, value in parts.items():
        if name not in ("COUNT", "UNTIL", "WKST") and known.get(name) != value.lstrip("+0"):
            raise IcsProblem(rule.number, f"RRULE has {name}={value}", hint=_YEARLY)
    if "FREQ" not in parts:
        raise IcsProblem(rule.number, "RRULE has no FREQ", hint=_YEARLY)
    if "COUNT" not in parts and "UNTIL" not in parts:
        return None
    return _bounded(rule, first, count=parts.get("COUNT"), until=parts.get("UNTIL"))


def _bounded(rule: _Line, first: date, *, count: str | None, until: str | None) -> list[date]:
    if count is not None and not (count.isdecimal() and 1 <= int(count) <= LONGEST):
        raise IcsProblem(rule.number, f"RRULE has COUNT={count}", hint=_YEARLY)
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
