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
    """Return the mode at `now`, given when the last activity was; quiet hours are dormant whatever happened.

    >>> noon = datetime.fromisoformat("2026-11-15T12:00:00Z")
    >>> [mode_at(noon + timedelta(minutes=at), activity=noon).value for at in (0, 9, 10, 59, 60)]
    ['active', 'active', 'idle', 'idle', 'dormant']
    """
    if _asleep(quiet, now) or activity is None:
        return Mode.DORMANT
    since = now - activity
    if since < ACTIVE_FOR:
        return Mode.ACTIVE
    return Mode.IDLE if since < IDLE_FOR else Mode.DORMANT


def next_change(now: datetime, *, activity: datetime | None, quiet: QuietHours | None = None) -> datetime | None:
    """Return when the mode may change by itself, None for never: without activity only quiet hours end and begin."""
    found = [] if activity is None else [activity + after for after in (ACTIVE_FOR, IDLE_FOR)]
    if quiet is not None and quiet.policy is QuietPolicy.DORMANT:
        found.append(next_border(quiet, now))
    return min((at for at in found if at > now), default=None)


def _asleep(quiet: QuietHours | None, now: datetime) -> bool:
    return quiet is not None and quiet.policy is QuietPolicy.DORMANT and quiet_until(quiet, now) is not None


LONGEST = timedelta(hours=1)


def is_fresh(good_at: datetime | None, *, interval: timedelta | None, born: datetime, now: datetime) -> bool:
    """Tell whether a result serves a run: made since the run was born, or not older than the interval of the mode.

    >>> noon = datetime.fromisoformat("2026-11-15T12:00:00Z")
    >>> is_fresh(noon, interval=timedelta(seconds=15), born=noon, now=noon + timedelta(minutes=5))
    True
    """
    if good_at is None:
        return False
    return good_at >= born or (interval is not None and now - good_at <= interval)


def bounded(suggested: float | None, schedule: Schedule) -> timedelta | None:
    """Return the interval that a server asks for: never shorter than the shortest of the file, never above an hour.

    Where the file itself has a longer one, that is the limit.
    """
    intervals = [one for one in map(schedule.every, Mode) if one is not None]
    if suggested is None or not intervals:
        return None
    most = max(*intervals, LONGEST)
    wanted = timedelta(seconds=min(max(suggested, 0), most.total_seconds()))
    return max(wanted, min(intervals))


INTERVALS = {Mode.ACTIVE: 15, Mode.IDLE: 60, Mode.DORMANT: 300}
SHORTEST = 5


def suggested_poll(mode: Mode, *, next_due_at: datetime | None, now: datetime) -> int:
    """Return after how many seconds to ask again: by the mode, sooner where something is due sooner, never below 5.

    >>> noon = datetime.fromisoformat("2026-11-15T12:00:00Z")
    >>> [suggested_poll(Mode.IDLE, next_due_at=noon + timedelta(seconds=due), now=noon) for due in (-9, 7.2, 3600)]
    [5, 8, 60]
    """
    usual = INTERVALS[mode]
    if next_due_at is None:
        return usual
    until = ceil((next_due_at - now) / timedelta(seconds=1))
    return min(usual, max(until, SHORTEST))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys whose value is another one, None for those that are gone.

    >>> changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 6})
    {'b': 5, 'd': 6, 'c': None}
    """
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {**changed, **{key: None for key in before if key not in after}}


def merged(document: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with changes: the last writer of a key wins, other keys stay; None takes a key away.

    >>> merged({"a": 1, "b": 2}, {"b": None, "c": 3})
    {'a': 1, 'c': 3}
    """
    return {key: value for key, value in {**document, **changed}.items() if value is not None}
