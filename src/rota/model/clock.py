"""The clock, times in milliseconds, and durations."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from rota.model.errors import InvalidDuration

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
_EXACT_UNTIL = 1000 * 2**32
"""Until the year 2106 a float of seconds is exact to the microsecond."""


class Clock(Protocol):
    """The source of time: the wall clock for due instants, the monotonic clock for durations."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC, cut to milliseconds."""

    def monotonic(self) -> float:
        """Return seconds that never step; suspended time does not count."""

    def boottime(self) -> float:
        """Return seconds that never step; suspended time counts."""


def to_ms(at: datetime) -> int:
    """Return `at` as integer milliseconds since 1970, the form in which instants are stored."""
    return (at - EPOCH) // MILLISECOND


def from_ms(ms: int) -> datetime:
    """Return the aware UTC instant of stored milliseconds."""
    if 0 <= ms < _EXACT_UNTIL:
        return datetime.fromtimestamp(ms / 1000, UTC)  # every run has several: half the time of an addition
    return EPOCH + timedelta(milliseconds=ms)


def from_ms_or_none(ms: int | None) -> datetime | None:
    """Return the instant of stored milliseconds, None for none."""
    return None if ms is None else from_ms(ms)


def to_ms_or_none(at: datetime | None) -> int | None:
    """Return `at` in milliseconds, None for none."""
    return None if at is None else to_ms(at)


def cut_to_ms(at: datetime) -> datetime:
    """Return `at` in UTC without what is finer than a millisecond."""
    return from_ms(to_ms(at.astimezone(UTC)))


@lru_cache(maxsize=10_000)
def iso(at: datetime) -> str:
    """Return `at` in UTC as ISO 8601 with `Z`; milliseconds only where there are any.

    >>> iso(datetime(2026, 11, 15, 20, 41, 7, tzinfo=UTC))
    '2026-11-15T20:41:07Z'
    """
    at = at.astimezone(UTC)
    return at.isoformat(timespec="milliseconds" if at.microsecond >= 1000 else "seconds").replace("+00:00", "Z")


def hashed_part(room: timedelta, key: str) -> timedelta:
    """Return a part of a time that follows from `key` alone: whole milliseconds, less than `room`.

    >>> hashed_part(timedelta(seconds=1), "backup"), hashed_part(timedelta(), "backup")
    (datetime.timedelta(microseconds=680000), datetime.timedelta(0))
    """
    milliseconds = room // MILLISECOND
    if milliseconds <= 0:
        return timedelta()
    import hashlib  # most commands delay nothing

    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8], "big") % milliseconds * MILLISECOND


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = timedelta(days=3660)
_WRITTEN = r"(?a)([0-9]{1,12})([smhd])"
_PART = r"([0-9]{1,9}(?:[.,][0-9]{1,6})?)\s*(s|sec|second|m|min|minute|h|hr|hour|d|day|w|week)s?"
WRITTEN_LIMIT = 40
_MEANT = r"(-?)[0-9]+([.,][0-9]+)?\s*([^\W\d_]*)"
"""A number and a unit, right or wrong."""


def parse_duration(text: str | int, /) -> timedelta:
    """Return the duration that `text` names: one positive integer and one unit, or integer seconds.

    >>> parse_duration("5m")
    datetime.timedelta(seconds=300)
    >>> parse_duration(" 1H ") == parse_duration(3600)
    True
    """
    seconds = _seconds(text)
    if seconds is None:
        raise InvalidDuration(text, _mistake(text), instead=_meant(text))
    if seconds <= 0:
        raise InvalidDuration(text, "is zero" if seconds == 0 else "is negative")
    if seconds > LONGEST.total_seconds():
        raise InvalidDuration(text, f"is longer than {LONGEST.days} days")
    return timedelta(seconds=seconds)


def _seconds(text: object) -> int | None:
    """Return the seconds that a value of any kind names, None where it is no duration."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    if not isinstance(text, str):
        return None
    written = re.fullmatch(_WRITTEN, text.strip().lower())
    return int(written[1]) * UNITS[written[2]] if written else None


def _meant(text: object) -> str:
    """Return a duration that is written otherwise as rota reads it, empty where it is none.

    >>> _meant("1h30m"), _meant("1.5h"), _meant("5 minutes"), _meant("forever")
    ('90m', '90m', '5m', '')
    """
    written = text.strip().lower() if isinstance(text, str) and len(text) <= WRITTEN_LIMIT else ""
    if not re.fullmatch(rf"(?:{_PART}\s*)+", written):
        return ""
    factors = {**UNITS, "w": 7 * UNITS["d"]}
    seconds = sum(float(number.replace(",", ".")) * factors[unit] for number, unit in re.findall(_PART, written))
    fits = seconds == int(seconds) and 0 < seconds <= LONGEST.total_seconds()
    return write_duration(timedelta(seconds=seconds)) if fits else ""


def _mistake(text: object) -> str:
    """Return what is wrong with a value that is no duration.

    >>> _mistake("1.5h"), _mistake("5x")
    ('is not a whole number', "has the unit 'x', not one of s, m, h, d")
    """
    if isinstance(text, float):
        return "is not a whole number"
    if not isinstance(text, str):
        return "is not a duration"
    if not text.strip():
        return "is empty"
    meant = re.fullmatch(_MEANT, text.strip()[:40].lower())
    if meant is None:
        return "is not a duration"
    minus, fraction, unit = meant.groups()
    if minus:
        return "is negative"
    if fraction:
        return "is not a whole number"
    if not unit:
        return "has no unit"
    return "has a space before its unit" if unit in UNITS else f"has the unit {unit!r}, not one of {', '.join(UNITS)}"


def write_duration(duration: timedelta) -> str:
    """Return `duration` as a user would write it, in the largest unit that is exact.

    >>> write_duration(timedelta(minutes=90))
    '90m'
    """
    seconds = duration.total_seconds()
    for unit in "dhm":
        if seconds and seconds % UNITS[unit] == 0:
            return f"{int(seconds // UNITS[unit])}{unit}"
    return f"{int(seconds) if seconds == int(seconds) else seconds}s"


def say_duration(duration: timedelta) -> str:
    """Return `duration` for reading, in at most two units.

    >>> say_duration(timedelta(hours=5, minutes=54, seconds=3))
    '5 h 54 min'
    >>> say_duration(timedelta(milliseconds=240))
    '0.2 s'
    """
    seconds = duration.total_seconds()
    if seconds < 0:
        return f"-{say_duration(-duration)}"
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    whole = int(seconds)
    parts = []
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"
