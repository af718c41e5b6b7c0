"""How soon somebody who polls rota should ask again (document 001, option C)."""

from datetime import datetime, timedelta
from math import ceil

from rota.model.spec import Mode

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
