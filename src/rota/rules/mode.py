"""How much is going on: active, idle or dormant, and when that changes by itself (R-18)."""

from datetime import datetime, timedelta

from rota.model.spec import Mode, QuietHours, QuietPolicy
from rota.rules.quiet import next_border, quiet_until

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
