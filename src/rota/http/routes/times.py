"""Points in time as requests write them."""

from collections.abc import Callable
from datetime import datetime

from rota.model.clock import cut_to_ms
from rota.model.errors import InvalidInstant
from rota.rules.times import read_coming, read_instant


def instant(text: str, *, now: datetime) -> datetime:
    """Return a point in time; one without an offset is in UTC."""
    return _readable(text, read_instant, now=now)


def coming(text: str, *, now: datetime) -> datetime:
    """Return a point in time that is to come."""
    return _readable(text, read_coming, now=now)


def _readable(text: str, read: Callable[..., datetime], *, now: datetime) -> datetime:
    try:
        return cut_to_ms(read(text, "UTC", now=now))
    except (OverflowError, ValueError):
        raise InvalidInstant(f"{text!r} is out of the range of years", hint="write 2026-11-15T20:41:07Z") from None
