"""Providers that are held since they took no more work: who, until when, who waits; and letting one go by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any

from rota.model.clock import iso
from rota.model.errors import ProviderNotHeld
from rota.model.holds import ProviderHold, provider_pool
from rota.model.records import Run
from rota.operations.dry import tried
from rota.operations.views import iso_or_none
from rota.store import cadence, events, holds, jobs, queue, runs
from rota.store.driver import Database, Store

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
    return [_view(db, hold) for hold in holds.holds(db)]


def _view(db: Database, hold: ProviderHold) -> HoldView:
    run = runs.run_by_id(db, hold.run_id) if hold.run_id else None
    return HoldView(hold, run.handle if run else None, holds.count_waiting(db, hold.provider, limit=COUNTED))


def held_runs(db: Database, queued: Sequence[Run]) -> dict[str, ProviderHold]:
    """Return which of these runs wait since their provider is held, by identifier; derived, never stored (R-02)."""
    by_pool = {provider_pool(hold.provider): hold for hold in holds.holds(db)}
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
        hold = holds.hold_of(db, agent.provider) if agent is not None else None
        return hold if hold is not None and hold.until is not None else None

    return store.read(read)


def release_provider(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> HoldView:
    """Let a provider go, or that of the agent of this name, and forget its refusals; return how it was held."""
    operation = partial(_release, name=name, now=now)
    return tried(store, operation) if dry_run else store.write(operation)


def _release(db: Database, *, name: str, now: datetime) -> HoldView:
    held = {view.hold.provider: view for view in hold_views(db)}
    provider = name if name in held else _provider_of_agent(db, name)
    if provider not in held:
        raise ProviderNotHeld(name, get_close_matches(name, held, n=1) or sorted(held))
    holds.forget_hold(db, provider)
    cadence.touch(db, what="release", now=now)
    events.note(db, "provider_released", now=now, provider=provider)
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
