"""Time zones by name, and the instants of wall times: gaps and folds."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from rota.model.clock import iso
from rota.model.errors import InvalidInstant, InvalidTimezone, nearest

MAX_NAME_LENGTH = 64
FIRST_YEAR, LAST_YEAR = 1970, 9900
"""The allowed years, so that all computed times stay within the calendar."""
_NAME = r"(?a)[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"
_NOT_ZONES = frozenset({"posix", "right", "posixrules", "localtime", "Factory"})
_SECOND = timedelta(seconds=1)


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name or `UTC`; any other text never reaches the file system.

    >>> zone("Europe/Paris").key
    'Europe/Paris'
    """
    if len(name) > MAX_NAME_LENGTH or not re.fullmatch(_NAME, name) or name.split("/")[0] in _NOT_ZONES:
        raise InvalidTimezone(name[:MAX_NAME_LENGTH], _near(name))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTimezone(name, _near(name)) from None


@cache
def _known() -> dict[str, str]:
    names = (name for name in available_timezones() if name not in _NOT_ZONES)
    return {name.lower(): name for name in sorted(names)}


def _near(name: str) -> list[str]:
    known = _known()
    written = name[:MAX_NAME_LENGTH].lower().replace(" ", "_")
    cities = [full for lower, full in known.items() if lower.endswith(f"/{written}")]
    # The nearest of an abbreviation is another zone: CEST is not EST.
    close = [] if name.isupper() and "/" not in name else nearest(written, known, n=3, cutoff=0.75)
    return [*cities, *(known[match] for match in close)][:3]


def localize(text_or_naive: datetime, tz: str) -> datetime:
    """Return the UTC instant of a local time; raise InvalidInstant if it does not exist or exists twice.

    >>> localize(datetime(2026, 11, 16, 2, 30), "Europe/Madrid").isoformat()
    '2026-11-16T01:30:00+00:00'
    """
    place = zone(tz)
    if not FIRST_YEAR <= text_or_naive.year <= LAST_YEAR:
        hint = f"write a year from {FIRST_YEAR} to {LAST_YEAR}"
        raise InvalidInstant(f"{text_or_naive.isoformat(sep=' ')} is out of range", hint=hint)
    if text_or_naive.tzinfo is not None:
        return text_or_naive.astimezone(UTC)
    instants = instants_of_wall(text_or_naive, place)
    if not instants:
        raise _in_the_gap(text_or_naive, place)
    if len(instants) == 2:
        raise _in_the_fold(text_or_naive, place, instants)
    return instants[0]


def instants_of_wall(wall: datetime, place: ZoneInfo) -> list[datetime]:
    """Return the instants, in order, at which clocks in `place` show `wall`: none in a gap, two in a fold.

    >>> len(instants_of_wall(datetime(2026, 10, 25, 2, 30), zone("Europe/Paris")))
    2
    """
    both = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(at for at in both if at.astimezone(place).replace(tzinfo=None, fold=0) == wall)


def end_of_gap(wall: datetime, place: ZoneInfo) -> datetime:
    """Return the first valid instant after the gap that holds `wall`.

    >>> end_of_gap(datetime(2026, 3, 29, 2, 30), zone("Europe/Paris")).isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    # In a gap, fold=1 uses the offset after it and gives an instant before it; fold=0 is the reverse.
    before = wall.replace(tzinfo=place, fold=1).astimezone(UTC)
    after = wall.replace(tzinfo=place, fold=0).astimezone(UTC)
    offset = before.astimezone(place).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // (2 * _SECOND) * _SECOND
        if middle.astimezone(place).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)


def _in_the_gap(wall: datetime, place: ZoneInfo) -> InvalidInstant:
    end = end_of_gap(wall, place)
    last, first = _shown(end - _SECOND, place), _shown(end, place)
    hint = f"clocks go from {last} to {first}; write a time before or after that, or an offset: at: {first}"
    return InvalidInstant(f"{wall.isoformat(sep=' ')} does not exist in {place.key}: clocks skip it", hint=hint)


def _in_the_fold(wall: datetime, place: ZoneInfo, instants: list[datetime]) -> InvalidInstant:
    first, second = (_shown(at, place) for at in instants)
    hint = f"write the offset: {first} ({iso(instants[0])}) or {second} ({iso(instants[1])})"
    return InvalidInstant(f"{wall.isoformat(sep=' ')} exists twice in {place.key}: clocks go back", hint=hint)


def _shown(at: datetime, place: ZoneInfo) -> str:
    return at.astimezone(place).isoformat(timespec="seconds")
