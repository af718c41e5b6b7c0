"""The fires of a cron line as cronsim alone reads it: an independent reading to compare our own with."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, zip_longest

from cronsim import CronSim

from rota.model.spec import Schedule
from rota.rules.coming import next_fires
from rota.rules.cron_text import normalise
from rota.rules.timezone import zone

COMPARED = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """The first fire on which two readings do not agree; None where one of them has no more."""

    cron: datetime | None
    rota: datetime | None


def compare_fires(cron: str, tz: str, *, after: datetime, count: int = COMPARED) -> Difference | None:
    """Return the first difference between cron's next fires and rota's; None when all of them are the same."""
    ours = (fire.at for fire in next_fires(Schedule(cron=(normalise(cron),), timezone=tz), after, count))
    for theirs, own in zip_longest(peer_fires(cron, tz, after=after, count=count), ours):
        if theirs != own:
            return Difference(theirs, own)
    return None


def peer_fires(cron: str, tz: str, *, after: datetime, count: int) -> list[datetime]:
    """Return the next fires of a cron line in a zone, in UTC, as Debian's cron would start them.

    >>> peer_fires("30 2 * * *", "Europe/Paris", after=datetime(2026, 3, 28, tzinfo=UTC), count=2)[1].isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    simulation = CronSim(normalise(cron), after.astimezone(zone(tz)))
    return [at.astimezone(UTC) for at in islice(simulation, count)]
