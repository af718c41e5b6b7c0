"""Calendars as text (RFC 5545): escaped texts, instants in UTC, and lines of at most 75 octets."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct

from rota.text.ansi import plain

OCTETS = 75
"""The longest line without its end."""
LONGEST_TEXT = 1_000
MINUTE = timedelta(minutes=1)


class CalendarEvent(Struct, frozen=True):
    """An event: at an instant for a while, or on a whole day."""

    uid: str
    begins: datetime | date
    summary: str
    lasts: timedelta = MINUTE
    description: str = ""
    categories: Sequence[str] = ()
    cancelled: bool = False


def write_calendar(name: str, events: Sequence[CalendarEvent], *, about: str, now: datetime) -> str:
    """Return a calendar of events; `about` describes it."""
    lines = [
        *("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//rota//calendar//EN", "CALSCALE:GREGORIAN"),
        *(f"NAME:{escaped(name)}", f"X-WR-CALNAME:{escaped(name)}"),
        *(f"DESCRIPTION:{escaped(about)}", f"X-WR-CALDESC:{escaped(about)}"),
        *("REFRESH-INTERVAL;VALUE=DURATION:PT1H", "X-PUBLISHED-TTL:PT1H"),
    ]
    for event in events:
        lines += _event(event, now=now)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in folded(line))


def _event(event: CalendarEvent, *, now: datetime) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{escaped(event.uid)}"
    yield f"DTSTAMP:{_instant(now)}"
    if isinstance(event.begins, datetime):
        yield f"DTSTART:{_instant(event.begins)}"
        yield f"DTEND:{_instant(event.begins + max(event.lasts, MINUTE))}"
    else:
        yield f"DTSTART;VALUE=DATE:{event.begins:%Y%m%d}"
        yield f"DTEND;VALUE=DATE:{event.begins + timedelta(days=1):%Y%m%d}"
    yield f"SUMMARY:{escaped(event.summary)}"
    if event.description:
        yield f"DESCRIPTION:{escaped(event.description)}"
    if event.categories:
        yield f"CATEGORIES:{','.join(map(escaped, event.categories))}"
    yield f"STATUS:{'CANCELLED' if event.cancelled else 'CONFIRMED'}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def escaped(text: str) -> str:
    r"""Return a text as a value.

    >>> escaped("a; b, c\\d\ne")
    'a\\; b\\, c\\\\d\\ne'
    """
    lines = "\n".join(plain(line) for line in text[:LONGEST_TEXT].splitlines())
    readable = "".join(each for each in lines if each == "\n" or each.isprintable())
    for mark in ("\\", ";", ","):
        readable = readable.replace(mark, f"\\{mark}")
    return readable.replace("\n", "\\n")


def folded(line: str) -> Iterator[str]:
    """Yield the parts of a line: none is longer than 75 octets, and no character is cut.

    >>> [len(part.encode()) for part in folded("x" * 160)], [part[0] for part in folded("x" * 160)]
    ([75, 75, 12], ['x', ' ', ' '])
    """
    part, size = "", 0
    for each in line:
        octets = len(each.encode("utf-8", "replace"))
        if size + octets > OCTETS:
            yield part
            part, size = " ", 1
        part, size = part + each, size + octets
    yield part
