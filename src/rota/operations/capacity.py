"""Pools and provider limits as users see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any

from rota.model.agents import ProviderHold, provider_of, provider_pool
from rota.model.clock import iso, to_ms
from rota.model.errors import ProviderNotHeld
from rota.model.records import Run
from rota.model.serialize import iso_or_none
from rota.model.states import Status
from rota.rules.queue_order import Head, Pool, Shortage, shortage
from rota.settings import BUILT_IN_POOLS
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import activity, audit, jobs, queue, runs

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


COUNTED = 1000
"""Who waits is counted up to here."""


@dataclass(frozen=True, slots=True)
class HoldView:
    """A provider that is held, the run that it refused, and how many runs that may be claimed wait for it."""

    hold: ProviderHold
    run: str | None
    waiting: int


def hold_views(db: Database) -> list[HoldView]:
    """Return the providers that are held, by name."""
    return [_hold_view(db, hold) for hold in queue.holds(db)]


def _hold_view(db: Database, hold: ProviderHold) -> HoldView:
    run = runs.run_by_id(db, hold.run_id) if hold.run_id else None
    return HoldView(
        hold, run.handle if run else None, queue.count_waiting_for_provider(db, hold.provider, limit=COUNTED)
    )


def held_runs(db: Database, queued: Sequence[Run]) -> dict[str, ProviderHold]:
    """Return which of these runs wait since their provider is held, by identifier; derived, never stored (R-02)."""
    by_pool = {provider_pool(hold.provider): hold for hold in queue.holds(db)}
    lanes = queue.lane_draws(db) if by_pool else {}
    held = {lane: hold for lane, draws in lanes.items() for draw in draws if (hold := by_pool.get(draw.pool))}
    return {run.id: held[run.lane_id] for run in queued if run.waiting_for is None and run.lane_id in held}


def held_providers(store: Store) -> list[HoldView]:
    """Return the providers that are held, by name."""
    return store.read(hold_views)


def hold_of_job(store: Store, name: str) -> ProviderHold | None:
    """Return how the provider of a job's agent is held, None where it is not."""

    def read(db: Database) -> ProviderHold | None:
        job = jobs.job_by_name(db, name)
        agent = job.spec.work.agent if job is not None else None
        hold = queue.hold_of(db, agent.provider) if agent is not None else None
        return hold if hold is not None and hold.until is not None else None

    return store.read(read)


def release_provider(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> HoldView:
    """Let a provider go, or that of the agent of this name, and forget its refusals; return how it was held."""
    operation = partial(_release, name=name, now=now)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def _release(db: Database, *, name: str, now: datetime) -> HoldView:
    held = {view.hold.provider: view for view in hold_views(db)}
    provider = name if name in held else _provider_of_agent(db, name)
    if provider not in held:
        raise ProviderNotHeld(name, get_close_matches(name, held, n=1) or sorted(held))
    queue.forget_hold(db, provider)
    activity.touch(db, what="release", now=now)
    audit.insert_event(db, "provider_released", now=now, provider=provider)
    return held[provider]


def _provider_of_agent(db: Database, name: str) -> str | None:
    agents = (job.spec.work.agent for job in jobs.all_jobs(db) if job.retired_at is None)
    return next((agent.provider for agent in agents if agent is not None and agent.agent == name), None)


def hold_json(view: HoldView) -> dict[str, Any]:
    """Return the hold of a provider as JSON."""
    hold = view.hold
    return {
        "provider": hold.provider,
        "until": iso_or_none(hold.until),
        "stated": hold.stated,
        "why": hold.why,
        "run": view.run,
        "since": iso(hold.set_at),
        "waiting": view.waiting,
    }
