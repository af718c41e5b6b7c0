"""What is said of a provider that takes no more work for a while."""

from datetime import datetime

from rota.model.holds import provider_of
from rota.rules.times import day_time


def say_hold(pool: str, until: datetime | None, *, zone: str, now: datetime) -> str:
    """Return which provider is held and until when, by the name of its pool."""
    end = f" until {day_time(until, zone, now=now)}" if until is not None else ""
    return f"provider {provider_of(pool) or pool} held{end}"
