"""Holds of providers: while one lasts, the pool of that provider has no room."""

from datetime import datetime, timedelta

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.holds import ProviderHold, provider_of, provider_pool
from rota.store.driver import Database, Row


def holds(db: Database) -> list[ProviderHold]:
    """Return the providers that are held, by name."""
    return [hold for row in db.rows("holds_all") if (hold := _hold(row)).until is not None]


def hold_of(db: Database, provider: str) -> ProviderHold | None:
    """Return how a provider is held, or what is remembered of its last refusals."""
    row = db.row("hold_of", pool=provider_pool(provider))
    return _hold(row) if row else None


def put_hold(db: Database, hold: ProviderHold) -> None:
    """Store how a provider is held, in the place of what was."""
    db.execute(
        "hold_put",
        pool=provider_pool(hold.provider),
        until=None if hold.until is None else to_ms(hold.until),
        stated=int(hold.stated),
        refusals=hold.refusals,
        why=hold.why,
        run_id=hold.run_id,
        set_at=to_ms(hold.set_at),
    )


def forget_hold(db: Database, provider: str) -> bool:
    """Forget all about a provider's refusals; tell whether it was held."""
    return any(until is not None for (until,) in db.rows("hold_forget", pool=provider_pool(provider)))


def end_due(db: Database, now: datetime) -> list[str]:
    """End the holds whose time is over; return whose they were."""
    return [provider_of(pool) or pool for (pool,) in db.rows("holds_end", now=to_ms(now))]


def next_end(db: Database) -> datetime | None:
    """Return when the next hold ends."""
    row = db.row("hold_next_end")
    return from_ms_or_none(row[0]) if row else None


def count_waiting(db: Database, provider: str, *, limit: int) -> int:
    """Return how many runs that may be claimed draw on the pool of a provider, counted up to `limit`."""
    row = db.row("hold_waiting", pool=provider_pool(provider), limit=limit)
    return int(row[0]) if row else 0


def shift(db: Database, back: timedelta) -> None:
    """Move the ends of holds that nobody stated back with the clock: they are elapsed time (R-26)."""
    db.execute("holds_shift", back=back // MILLISECOND)


def _hold(row: Row) -> ProviderHold:
    pool, until, stated, refusals, why, run_id, set_at = row
    provider = provider_of(pool) or pool
    return ProviderHold(provider, from_ms_or_none(until), bool(stated), refusals, why, run_id, from_ms(set_at))
