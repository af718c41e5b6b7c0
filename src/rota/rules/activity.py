"""Activity: the mode (active, idle, dormant), the poll's interval and the state shared by jobs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from rota.model.spec import Mode, QuietHours, QuietPolicy, Schedule
from rota.rules.schedule.blackouts import next_border, quiet_until

ACTIVE_FOR = timedelta(minutes=10)
IDLE_FOR = timedelta(hours=1)


def mode_at(now: datetime, *, activity: datetime | None, quiet: QuietHours | None = None) -> Mode:
    """Return the mode at `now`, given the last activity; quiet hours are always dormant.

    >>> noon = datetime.fromisoformat("2026-11-15T12:00:00Z")
    >>> [mode_at(noon + timedelta(minutes=at), activity=noon).value for at in (0, 9, 10, 59, 60)]
    ['active', 'active', 'idle', 'idle', 'dormant']
    """
    asleep = quiet is not None and quiet.policy is QuietPolicy.DORMANT and quiet_until(quiet, now) is not None
    if asleep or activity is None:
        return Mode.DORMANT
    since = now - activity
    if since < ACTIVE_FOR:
        return Mode.ACTIVE
    return Mode.IDLE if since < IDLE_FOR else Mode.DORMANT


def next_change(now: datetime, *, activity: datetime | None, quiet: QuietHours | None = None) -> datetime | None:
    """Return the next time at which the mode may change without activity, or None."""
    changes = [] if activity is None else [activity + after for after in (ACTIVE_FOR, IDLE_FOR)]
    if quiet is not None and quiet.policy is QuietPolicy.DORMANT:
        changes.append(next_border(quiet, now))
    return min((at for at in changes if at > now), default=None)


MAX_SUGGESTED = timedelta(hours=1)


def is_fresh(good_at: datetime | None, *, interval: timedelta | None, born: datetime, now: datetime) -> bool:
    """Return whether a result is fresh for a run: newer than the run, or not older than the interval of the mode.

    >>> noon = datetime.fromisoformat("2026-11-15T12:00:00Z")
    >>> is_fresh(noon, interval=timedelta(seconds=15), born=noon, now=noon + timedelta(minutes=5))
    True
    """
    if good_at is None:
        return False
    return good_at >= born or (interval is not None and now - good_at <= interval)


def bounded(suggested: float | None, schedule: Schedule) -> timedelta | None:
    """Return the interval that a server suggests: from the shortest of the file up to an hour or its longest."""
    intervals = [interval for interval in map(schedule.every, Mode) if interval is not None]
    if suggested is None or not intervals:
        return None
    most = max(*intervals, MAX_SUGGESTED)
    wanted = timedelta(seconds=min(max(suggested, 0), most.total_seconds()))
    return max(wanted, min(intervals))


POLL_SECONDS = {Mode.ACTIVE: 15, Mode.IDLE: 60, Mode.DORMANT: 300}
MIN_POLL_SECONDS = 5


def suggested_poll(mode: Mode, *, next_due_at: datetime | None, now: datetime) -> int:
    """Return the seconds until the next request: by the mode, less if a job is due sooner, never below 5.

    >>> noon = datetime.fromisoformat("2026-11-15T12:00:00Z")
    >>> [suggested_poll(Mode.IDLE, next_due_at=noon + timedelta(seconds=due), now=noon) for due in (-9, 7.2, 3600)]
    [5, 8, 60]
    """
    usual = POLL_SECONDS[mode]
    if next_due_at is None:
        return usual
    until = ceil((next_due_at - now) / timedelta(seconds=1))
    return min(usual, max(until, MIN_POLL_SECONDS))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed keys, None for deleted ones.

    >>> changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 6})
    {'b': 5, 'd': 6, 'c': None}
    """
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {**changed, **{key: None for key in before if key not in after}}


def merged(document: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with changes applied; None deletes a key.

    >>> merged({"a": 1, "b": 2}, {"b": None, "c": 3})
    {'a': 1, 'c': 3}
    """
    return {key: value for key, value in {**document, **changed}.items() if value is not None}
