"""Points in time as requests write them."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import JsonValue

from rota.model.clock import cut_to_ms
from rota.model.errors import InvalidInstant
from rota.rules.times import read_coming, read_instant

WHEN = "ISO 8601; or back from now: 2h, 30d, today, yesterday."
YEARS = "^(19[7-9][0-9]|[2-8][0-9]{3}|9[0-8][0-9]{2})-"
ISO: list[JsonValue] = [
    {"type": "string", "format": "date-time", "pattern": YEARS},
    {"type": "string", "format": "date", "pattern": YEARS},
]
PAST: list[JsonValue] = [
    *ISO,
    {"type": "string", "pattern": r"^([1-9][0-9]{0,3}[smh]|[1-9][0-9]{0,2}d|now|today|yesterday)$"},
]
COMING: list[JsonValue] = [*ISO, {"type": "string", "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$"}]
"""How requests write points in time, for OpenAPI."""
PastTime = Annotated[str, Query(min_length=1, max_length=64, description=WHEN, json_schema_extra={"anyOf": PAST})]


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
