"""Grids of instants at equal distances, and how an interval reads."""

from datetime import datetime, timedelta

from rota.model.durations import say_duration
from rota.model.spec import Anchor, Schedule

_READINGS = {Anchor.COMPLETION: " after it finishes", Anchor.START: " after it starts", Anchor.FIXED: ""}


def grid_next(origin: datetime, interval: timedelta, after: datetime) -> datetime:
    """Return the first instant of the grid strictly after `after`; the grid begins with `origin` itself.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> grid_next(noon, timedelta(minutes=5), noon).isoformat()
    '2026-01-01T12:05:00+00:00'
    """
    return origin if after < origin else origin + ((after - origin) // interval + 1) * interval


def grid_previous(origin: datetime, interval: timedelta, before: datetime) -> datetime | None:
    """Return the last instant of the grid strictly before `before`, None at or before its origin."""
    if before <= origin:
        return None
    steps = -((origin - before) // interval)  # the quotient rounded up
    return origin + (steps - 1) * interval


def grid_count(origin: datetime, interval: timedelta, *, first: datetime, last: datetime) -> int:
    """Return how many instants of the grid lie from `first` to `last`, both included."""
    first = max(first, origin)
    if last < first:
        return 0
    return (last - origin) // interval + (origin - first) // interval + 1


def explain_interval(schedule: Schedule) -> str:
    """Return how an interval reads, with what it counts from (R-06).

    >>> explain_interval(Schedule(interval=timedelta(minutes=30)))
    'every 30 min after it finishes'
    """
    return f"every {say_interval(schedule)}{_READINGS[schedule.anchor]}"


def say_interval(schedule: Schedule) -> str:
    """Return the length of an interval, or its lengths by mode.

    >>> from rota.model.spec import ByMode
    >>> say_interval(Schedule(by_mode=ByMode(timedelta(seconds=15), timedelta(minutes=1), None)))
    '15 s (idle 1 min, dormant never)'
    """
    if schedule.by_mode is None:
        return _say(schedule.interval)
    modes = schedule.by_mode
    return f"{_say(modes.active)} (idle {_say(modes.idle)}, dormant {_say(modes.dormant)})"


def _say(interval: timedelta | None) -> str:
    return "never" if interval is None else say_duration(interval)
