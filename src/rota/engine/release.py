"""Release: let go what waited for a time, and end what waited too long."""

from dataclasses import dataclass
from datetime import datetime

from rota.engine.pause import PauseEnded, end_timed_pauses
from rota.engine.pauses import next_pause_end
from rota.engine.record import expire
from rota.model.clock import from_ms_or_none
from rota.store import chains, holds
from rota.store.driver import Database

EXPIRIES_A_ROUND = 200


@dataclass(frozen=True, slots=True)
class Released:
    """What was over: the waiting of runs that expired, timed pauses, and the holds of these providers."""

    expired: list[str]
    pauses: list[PauseEnded]
    holds: list[str]


def next_release(db: Database) -> datetime | None:
    """Return when the next waiting run is let go or expires, or a timed pause or the hold of a provider is over."""
    found = [db.row("run_next_release"), db.row("run_next_expiry")]
    due = [from_ms_or_none(row[0]) for row in found if row and row[0] is not None]
    due += [next_pause_end(db), holds.next_end(db)]
    return min((at for at in due if at is not None), default=None)


def release_due(db: Database, *, now: datetime) -> Released:
    """Let go runs whose waiting time is over, expire those that waited too long, end timed pauses and holds."""
    expired = expire(db, now=now, limit=EXPIRIES_A_ROUND)
    chains.let_go_due(db, now)
    return Released(expired, end_timed_pauses(db, now=now, limit=EXPIRIES_A_ROUND), holds.end_due(db, now))
