"""When the result of the shared poll is fresh enough, and how far its server's wish is followed (R-16)."""

from datetime import datetime, timedelta

from rota.model.spec import Mode, Schedule

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
