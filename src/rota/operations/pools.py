"""Pools as people ask for them: how full they are, who draws on them, and which one a queued run waits for."""

from dataclasses import dataclass
from typing import Any

from rota.model.clock import to_ms
from rota.model.holds import provider_of
from rota.model.records import Run
from rota.model.states import Status
from rota.rules.lanes import Head, Pool, Shortage, shortage
from rota.settings import BUILT_IN_POOLS
from rota.store import queue, runs
from rota.store.driver import Database

HOLDERS = 5


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool, and who draws on it: the first few."""

    pool: Pool
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolWait:
    """The pool that keeps a run waiting, who draws on it, and the run that it is kept for, if that is why."""

    shortage: Shortage
    holders: tuple[str, ...]
    behind: str | None


def pool_views(db: Database) -> list[PoolView]:
    """Return the pools that matter here: all but a built-in one that nobody draws on and one that is no longer used."""
    drawn = queue.drawn_on(db)
    return [_view(db, pool) for pool in queue.pools(db) if _matters(pool, drawn)]


def _matters(pool: Pool, drawn: set[str]) -> bool:
    if provider_of(pool.name) is not None:
        return False  # it bounds nothing; where it is held the hold is told
    if pool.used:
        return True
    return pool.declared and (pool.name in drawn or pool.name not in BUILT_IN_POOLS)


def _view(db: Database, pool: Pool) -> PoolView:
    return PoolView(pool, tuple(queue.holders(db, pool.name, limit=HOLDERS)) if pool.used else ())


def pool_wait(db: Database, run: Run) -> PoolWait | None:
    """Return the pool that a run waits for; None where it waits for something else, or for nothing."""
    if run.status is not Status.QUEUED or run.waiting_for is not None:
        return None
    lanes = queue.lane_draws(db)
    draws = lanes.get(run.lane_id, ())
    if not draws:
        return None
    order = (-run.rank, run.position, to_ms(run.created_at), run.id)
    found = shortage(Head(order, run.lane_id, draws), queue.pools(db), queue.heads(db))
    if found is None:
        return None
    first = runs.run_by_id(db, found.behind) if found.behind else None
    holders = queue.holders(db, found.pool.name, limit=HOLDERS)
    return PoolWait(found, tuple(holders), first.handle if first else None)


def pool_json(view: PoolView) -> dict[str, Any]:
    """Return a pool as JSON."""
    pool = view.pool
    return {
        "name": pool.name,
        "capacity": pool.capacity,
        "used": pool.used,
        "declared": pool.declared,
        "holders": list(view.holders),
    }
