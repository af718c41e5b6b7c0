"""Document 003's functions of time, with the machine's clock where no `now` is given."""

from datetime import datetime, timedelta

from rota.engine.clock import SystemClock
from rota.rules import triggers


def next_trigger(
    last_completed: datetime | None, interval: str | timedelta, jitter: float = 0, *, now: datetime | None = None
) -> datetime:
    """Return when an interval is due: at once the first time, else an interval after its last completion.

    Never before now; `jitter` delays it by up to so many percent of the interval, 50 at most.
    """
    return triggers.next_trigger(last_completed, interval, jitter=jitter, now=_now(now))


def is_due(next_run_at: datetime, now: datetime | None = None) -> bool:
    """Tell whether an instant has come."""
    return triggers.is_due(next_run_at, _now(now))


def _now(given: datetime | None) -> datetime:
    return SystemClock().now() if given is None else triggers.aware(given)
