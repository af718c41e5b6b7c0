"""When a digest is due."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.rules.schedule.cron import cron_next, cron_previous

LONGEST = timedelta(days=7)
"""A digest covers at most this time: after a long stop, older runs are in the history."""


def digest_due(times: Sequence[str], timezone: str, *, last: datetime, now: datetime) -> bool:
    """Return whether a time of day has come since the last digest. Several that have passed make one digest.

    >>> from datetime import UTC
    >>> now = datetime(2026, 11, 16, 9, tzinfo=UTC)
    >>> [digest_due(["07:30"], "UTC", last=now.replace(hour=hour), now=now) for hour in (7, 8)]
    [True, False]
    """
    instant = cron_previous(_expressions(times), timezone, now + timedelta(milliseconds=1))
    return instant is not None and instant > last


def next_digest(times: Sequence[str], timezone: str, *, now: datetime) -> datetime | None:
    """Return the next time of day.

    >>> from datetime import UTC
    >>> next_digest(["07:30", "18:00"], "UTC", now=datetime(2026, 11, 16, 9, tzinfo=UTC)).isoformat()
    '2026-11-16T18:00:00+00:00'
    """
    return cron_next(_expressions(times), timezone, now)


def _expressions(times: Sequence[str]) -> tuple[str, ...]:
    parts = [time.split(":") for time in times]
    return tuple(f"{int(minute)} {int(hour)} * * *" for hour, minute in parts)
