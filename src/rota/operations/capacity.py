"""Pools and provider limits as users see them."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from rota.model.agents import ProviderHold, provider_of, provider_pool
from rota.model.clock import iso, to_ms
from rota.model.errors import ProviderNotHeld, nearest
from rota.model.records import Run
from rota.model.serialize import fields_json
from rota.model.states import Status
from rota.rules.queue_order import Head, Pool, Shortage, shortage
from rota.settings import BUILT_IN_POOLS
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import activity, audit, jobs, queue, runs

HOLDERS_SHOWN = 5
MAX_COUNTED_WAITING = 1000


class PoolView(Struct, frozen=True):
    """A pool, and the first few runs that draw on it."""

    pool: Pool
    holders: tuple[str, ...]


class PoolWait(Struct, frozen=True):
    """The pool that a run waits for, its holders, and the run that it is kept for, if any."""

    shortage: Shortage
    holders: tuple[str, ...]
    behind: str | None


def pool_views(db: Database) -> list[PoolView]:
    """Return all pools except unused built-in ones and those that are no longer declared or used."""
    drawn = queue.drawn_on(db)
    return [
        PoolView(pool, tuple(queue.holders(db, pool.name, limit=HOLDERS_SHOWN)) if pool.used else ())
        for pool in queue.pools(db)
        if _is_shown(pool, drawn)
    ]


def _is_shown(pool: Pool, drawn: set[str]) -> bool:
    if provider_of(pool.name) is not None:
        return False  # it limits nothing; a held provider is shown as a hold
    return bool(pool.used) or (pool.declared and (pool.name in drawn or pool.name not in BUILT_IN_POOLS))


def pool_wait(db: Database, run: Run) -> PoolWait | None:
    """Return the pool that a run waits for; None if it does not wait for a pool."""
    if run.status is not Status.QUEUED or run.waiting_for is not None:
        return None
    draws = queue.lane_draws(db).get(run.lane_id, ())
    if not draws:
        return None
    order = (-run.rank, run.position, to_ms(run.created_at), run.seq)
    short = shortage(Head(order, run.lane_id, draws), queue.pools(db), queue.heads(db))
    if short is None:
        return None
    first = runs.run_by_seq(db, short.behind) if short.behind else None
    holders = queue.holders(db, short.pool.name, limit=HOLDERS_SHOWN)
    return PoolWait(short, tuple(holders), first.handle if first else None)


def pool_json(view: PoolView) -> dict[str, Any]:
    """Return a pool as JSON."""
    return {**fields_json(view.pool, "name", "capacity", "used", "declared"), "holders": list(view.holders)}


class HoldView(Struct, frozen=True):
    """A held provider, the run that it refused, and the number of claimable runs that wait for it."""

    hold: ProviderHold
    run: str | None
    waiting: int


def hold_views(db: Database) -> list[HoldView]:
    """Return the held providers by name."""
    views = []
    for hold in queue.holds(db):
        run = runs.run_by_id(db, hold.run_id) if hold.run_id else None
        waiting = queue.count_waiting_for_provider(db, hold.provider, limit=MAX_COUNTED_WAITING)
        views.append(HoldView(hold, run.handle if run else None, waiting))
    return views


def held_runs(db: Database, queued: Sequence[Run]) -> dict[str, ProviderHold]:
    """Return the hold of each run that waits for its provider, by identifier; derived, never stored."""
    by_pool = {provider_pool(hold.provider): hold for hold in queue.holds(db)}
    lanes = queue.lane_draws(db) if by_pool else {}
    held = {lane: hold for lane, draws in lanes.items() for draw in draws if (hold := by_pool.get(draw.pool))}
    return {run.id: held[run.lane_id] for run in queued if run.waiting_for is None and run.lane_id in held}


def held_providers(store: Store) -> list[HoldView]:
    """Return the held providers by name."""
    return store.read(hold_views)


def hold_of_job(store: Store, name: str) -> ProviderHold | None:
    """Return the active hold of the provider of a job's agent, or None."""

    def read(db: Database) -> ProviderHold | None:
        job = jobs.job_by_name(db, name)
        agent = job.spec.work.agent if job is not None else None
        providers = [] if agent is None else [one.provider for one in (agent.choices or (agent,))]
        holds = [queue.hold_of(db, provider) for provider in providers]
        held = [hold for hold in holds if hold is not None and hold.until is not None]
        return held[0] if held and len(held) == len(providers) else None

    return store.read(read)


def release_provider(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> HoldView:
    """Release a provider, or the provider of an agent, and reset its refusals; return the former hold."""
    operation = partial(_release, name=name, now=now)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def _release(db: Database, *, name: str, now: datetime) -> HoldView:
    held = {view.hold.provider: view for view in hold_views(db)}
    works = [job.spec.work.agent for job in jobs.all_jobs(db) if job.retired_at is None]
    agents = (one for work in works if work is not None for one in (work.choices or (work,)))
    named = [agent.provider for agent in agents if agent.agent == name]
    of_agent = next((provider for provider in named if provider in held), next(iter(named), None))
    provider = name if name in held else of_agent
    if provider not in held:
        raise ProviderNotHeld(name, nearest(name, held) or sorted(held))
    queue.forget_hold(db, provider)
    activity.touch(db, what="release", now=now)
    audit.insert_event(db, "provider_released", now=now, provider=provider)
    return held[provider]


def hold_json(view: HoldView) -> dict[str, Any]:
    """Return the hold of a provider as JSON."""
    hold = fields_json(view.hold, "provider", "until", "stated", "problem", "why")
    return {**hold, "run": view.run, "since": iso(view.hold.set_at), "waiting": view.waiting}
