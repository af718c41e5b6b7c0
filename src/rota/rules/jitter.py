"""The delay of one instant, chosen by hash so that every process and every preview has the same."""

import hashlib
from datetime import datetime, timedelta

from rota.model.clock import MILLISECOND, to_ms
from rota.model.spec import Jitter

NONE = timedelta(0)


def delay(jitter: Jitter | None, *, name: str, instant: datetime, gap: timedelta | None) -> timedelta:
    """Return how much later than nominal `instant` fires: whole milliseconds, never as much as the gap to the next.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> NONE <= delay(Jitter(percent=50), name="a", instant=at, gap=timedelta(hours=1)) < timedelta(minutes=30)
    True
    """
    room = _room(jitter, gap) // MILLISECOND
    if room <= 0:
        return NONE
    digest = hashlib.sha256(f"{name}\0{to_ms(instant)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % room * MILLISECOND


def _room(jitter: Jitter | None, gap: timedelta | None) -> timedelta:
    if jitter is None:
        return NONE
    if gap is None:  # the only instant there is: nothing to run into, and nothing to take a percentage of
        return jitter.up_to or NONE
    wanted = jitter.up_to if jitter.up_to is not None else gap * ((jitter.percent or 0) / 100)
    return min(wanted, gap)
