"""Time as the rest of rota sees it. The system's clock is in `engine/clock.py`; nothing else reads one."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
_EXACT_UNTIL = 1000 * 2**32
"""Until the year 2106 a float of seconds tells the microsecond."""


class Clock(Protocol):
    """Where time comes from: the wall to say what is due, the monotonic clock to measure."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC, cut to milliseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never step; suspended time does not count."""
        ...

    def boottime(self) -> float:
        """Return seconds that never step; suspended time counts."""
        ...


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


def iso(at: datetime) -> str:
    """Return `at` in UTC as ISO 8601 with `Z`; milliseconds only where there are any.

    >>> iso(datetime(2026, 11, 15, 20, 41, 7, tzinfo=UTC))
    '2026-11-15T20:41:07Z'
    """
    at = at.astimezone(UTC)
    return at.isoformat(timespec="milliseconds" if at.microsecond >= 1000 else "seconds").replace("+00:00", "Z")
