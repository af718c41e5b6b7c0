"""The queue as users see it: runs in order, and why they do not start."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct

from rota.engine.activity import PauseState, claiming_paused, everything_paused
from rota.model.agents import provider_of
from rota.model.records import Run
from rota.model.serialize import fields_json, iso_or_none, run_json
from rota.model.spec import Draw
from rota.model.states import Held
from rota.operations.activity import PauseJson, pause_json
from rota.operations.direct_calls import DirectCallJson, DirectView, direct_calls, direct_json
from rota.operations.status.heartbeat import Heartbeat, heartbeat, with_ticks
from rota.operations.workers import all_drained
from rota.rules.admission import Hold, holds
from rota.store.driver import Database, Store
from rota.store.tables import direct_calls as direct_calls_table
from rota.store.tables import queue
from rota.text.format import day_time
from rota.text.jobs import say_hold

PLACES = 1000
"""The largest place; runs behind it are at 1000+."""
COUNTED = 100_000
HOLDERS_SHOWN = 10


class PoolUse(Struct, frozen=True):
    """A pool that runs wait for, and its holders."""

    name: str
    capacity: int
    used: int
    holders: tuple[str, ...]
    held_until: datetime | None = None
    """The end of the hold of its provider."""
    held_for: str = ""


class ReadyRun(Struct, frozen=True):
    """A claimable run: its place, its pools, and why it does not start."""

    place: int
    run: Run
    draws: tuple[Draw, ...]
    hold: Hold


class QueueView(Struct, frozen=True):
    """The head of the queue: direct calls, then ready runs, then waiting runs.

    Counts end at `COUNTED`. `pools` are the pools that runs of this page lack, by name; `predecessors` the handles
    of the runs that waiting runs wait for, by identifier.
    """

    beat: Heartbeat
    direct: tuple[DirectView, ...]
    ready: tuple[ReadyRun, ...]
    waiting: tuple[Run, ...]
    ready_count: int
    waiting_count: int
    pools: dict[str, PoolUse]
    predecessors: dict[str, str]
    pause: PauseState | None


def look_at_queue(store: Store, state: Path, *, limit: int, now: datetime) -> QueueView:
    """Return the first `limit` claimable runs, and as many waiting ones."""
    return store.read(partial(look_in, beat=heartbeat(state), limit=limit, now=now))


def look_in(db: Database, *, beat: Heartbeat, limit: int, now: datetime) -> QueueView:
    """Return the head of the queue inside a transaction."""
    beat = with_ticks(db, beat, now=now)
    ready = queue.runs_of(db, queue.ready(db, limit=limit))
    calls = direct_calls(db).waiting
    pause = everything_paused(db) if claiming_paused(db, now) else None
    standing = _standing(db, ready, beat=beat, paused=pause is not None)
    waiting = queue.runs_of(db, queue.waiting(db, limit=limit))
    lacked = {ready_run.hold.pool for ready_run in standing if ready_run.hold.pool is not None}
    uses = {}
    for pool in queue.pools(db):
        if pool.name in lacked:
            holders = tuple(queue.holders(db, pool.name, limit=HOLDERS_SHOWN))
            uses[pool.name] = PoolUse(pool.name, pool.capacity, pool.used, holders, pool.held_until, pool.held_for)
    predecessors = {run.predecessor_id for run in waiting if run.predecessor_id is not None}
    return QueueView(
        beat=beat,
        direct=calls,
        ready=standing,
        waiting=tuple(waiting),
        ready_count=queue.count_ready(db, limit=COUNTED),
        waiting_count=queue.count_waiting(db, limit=COUNTED),
        pools=uses,
        predecessors={run.id: run.handle for run in queue.runs_of(db, sorted(predecessors))},
        pause=pause,
    )


def _standing(db: Database, ready: Sequence[Run], *, beat: Heartbeat, paused: bool) -> tuple[ReadyRun, ...]:
    drawn = queue.lane_draws(db)
    draws = [drawn.get(run.lane_id, ()) for run in ready]
    calls = [drawn.get(call.lane_id, ()) for call in direct_calls_table.calls(db) if call.slot is None]
    free = beat.slots - beat.slots_taken
    blocked = holds(draws, queue.room(db), paused=paused, served=beat.serves, free=free, first=calls)
    rows = zip(ready, draws, blocked, strict=True)
    return tuple(ReadyRun(place, run, drawing, hold) for place, (run, drawing, hold) in enumerate(rows, start=1))


class QueueViewJson(TypedDict):
    """The head of the queue, as `rota queue --json`."""

    state: str
    paused: PauseJson | None
    slots: int | None
    slots_taken: int | None
    ready_count: int
    waiting_count: int
    direct: list[DirectCallJson]
    ready: list[dict[str, Any]]
    waiting: list[dict[str, Any]]
    pools: list[dict[str, Any]]


def queue_json(view: QueueView) -> QueueViewJson:
    """Return the head of the queue as JSON."""
    return {
        "state": view.beat.liveness.value,
        "paused": pause_json(view.pause.since, view.pause.until, reason=view.pause.reason) if view.pause else None,
        "slots": view.beat.slots if view.beat.answer or view.beat.workers else None,
        "slots_taken": view.beat.slots_taken if view.beat.answer or view.beat.workers else None,
        "ready_count": view.ready_count,
        "waiting_count": view.waiting_count,
        "direct": [direct_json(call) for call in view.direct],
        "ready": [_standing_json(ready_run, view) for ready_run in view.ready],
        "waiting": [_waiting_json(run, view) for run in view.waiting],
        "pools": [
            fields_json(pool, "name", "capacity", "used", "holders")
            for pool in view.pools.values()
            if pool.held_until is None
        ],
    }


def _standing_json(one: ReadyRun, view: QueueView) -> dict[str, Any]:
    pool = view.pools.get(one.hold.pool or "")
    return {
        **run_json(one.run),
        "place": one.place,
        "priority": one.run.priority,
        "pools": {draw.pool: draw.cost for draw in one.draws},
        "held": one.hold.held,
        "pool": one.hold.pool,
        "held_until": iso_or_none(pool.held_until if pool else None),
    }


def _waiting_json(run: Run, view: QueueView) -> dict[str, Any]:
    return {
        **run_json(run),
        "priority": run.priority,
        "predecessor": view.predecessors.get(run.predecessor_id or ""),
        "not_before": iso_or_none(run.not_before),
        "expires_at": iso_or_none(run.expires_at),
    }


def hold_words(one: ReadyRun, view: QueueView, *, zone: str, now: datetime) -> str:
    """Return why a claimable run is not running, in a few words."""
    hold = one.hold
    if hold.held is Held.PAUSED:
        return "everything is paused"
    if hold.held is Held.NO_WORKER:
        if not view.beat.alive:
            return "no scheduler is running"
        drained = all_drained(view.beat.workers)
        if drained:
            return f"all workers are drained: {', '.join(drained)}"
        pools = ", ".join(draw.pool for draw in one.draws)
        return f"no running worker accepts it: it uses {pools or 'no pool'}"
    if hold.held is Held.SLOT:
        return f"no slot is free: {view.beat.slots_taken} of {view.beat.slots} taken"
    if hold.pool is None:
        return "starts next"
    if hold.held is Held.PROVIDER_HOLD:
        pool = view.pools.get(hold.pool)
        return say_hold(
            hold.pool, pool.held_until if pool else None, zone=zone, now=now, problem=pool.held_for if pool else ""
        )
    return _pool_words(one, view.pools.get(hold.pool))


def waiting_words(run: Run, view: QueueView, *, zone: str, now: datetime) -> str:
    """Return why a run is not claimable yet, in a few words."""
    until = f" until {day_time(run.not_before, zone, now=now, seconds=True)}" if run.not_before else ""
    named = view.predecessors.get(run.predecessor_id or "")
    return f"waits for {run.waiting_for}{f' {named}' if named else ''}{until}"


def draw_words(one: ReadyRun) -> str:
    """Return the pools that a run draws on, without the pool of its provider, which limits nothing."""
    drawn = [draw for draw in one.draws if provider_of(draw.pool) is None]
    return ", ".join(draw.pool if draw.cost == 1 else f"{draw.pool} ×{draw.cost}" for draw in drawn)


def _pool_words(one: ReadyRun, pool: PoolUse | None) -> str:
    if pool is None:
        return f"pool {one.hold.pool} does not exist"
    cost = next(draw.cost for draw in one.draws if draw.pool == pool.name)
    if cost > pool.capacity:
        return f"pool {pool.name} holds {pool.capacity}, the run needs {cost}: raise its capacity"
    if pool.capacity - pool.used >= cost:
        return f"pool {pool.name} is reserved for a run before it"
    by = f" by {', '.join(pool.holders[:3])}{'…' * (len(pool.holders) > 3)}" if pool.holders else ""
    return f"pool {pool.name}: {pool.used} of {pool.capacity} used{by}"
