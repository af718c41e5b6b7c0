"""Changes of queued runs: their place (DEC-005), and until the first dispatch their params and priority (INV-001)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from rota.engine.cadence import touching
from rota.engine.move import Aim, Where, move
from rota.model.durations import write_duration
from rota.model.errors import AgingOrders, Immutable, InvalidValue, NotQueued, OtherPriority, RunIsFinal
from rota.model.ids import created_ms
from rota.model.records import Run
from rota.model.states import Status
from rota.operations.dry import tried
from rota.operations.queue import PLACES
from rota.operations.runs import find_run
from rota.operations.starting import merged_params
from rota.rules.lanes import GROUP_LANE
from rota.rules.order import place_of
from rota.store import events, jobs, order, queue, runs
from rota.store.driver import Database, Store

MOVED_AT_ONCE = 1000
PRIORITIES = range(-1000, 1001)


@dataclass(frozen=True, slots=True)
class Moved:
    """A run at its new place. `place` None: beyond 1000, or it waits. `note`: why it is not where it was sent."""

    run: Run
    place: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where runs are to go, as people say it: `other` is a handle, `place` counts from 1."""

    where: Where
    other: str = ""
    place: int = 0


def move_runs(
    store: Store, handles: Sequence[str], destination: Destination, *, now: datetime, dry_run: bool = False
) -> list[Moved]:
    """Move queued runs, in their given order, within their priority."""
    if destination.where is Where.TO and not 1 <= destination.place <= PLACES:
        raise InvalidValue(f"there is no place {destination.place} to move to", hint=f"places go from 1 to {PLACES}")
    operation = partial(_move, handles=handles, destination=destination, now=now)
    return tried(store, operation) if dry_run else store.write(touching(operation, what="move", now=now))


def step_run(store: Store, handle: str, *, steps: int, now: datetime) -> Moved:
    """Move a run that may be claimed up (negative) or down by some places, within its priority."""
    operation = partial(_step, handle=handle, steps=steps, now=now)
    return store.write(touching(operation, what="move", now=now))


def _step(db: Database, *, handle: str, steps: int, now: datetime) -> Moved:
    run = _placed(find_run(db, handle))
    place = order.place_of(db, run, limit=PLACES) if run.waiting_for is None else None
    if place is None:
        raise InvalidValue(f"{run.handle} has no place to step from", hint="move it first or last")
    destination = Destination(Where.TO, place=min(max(place + steps, 1), PLACES))
    return _move(db, handles=[run.handle], destination=destination, now=now)[0]


def _move(db: Database, *, handles: Sequence[str], destination: Destination, now: datetime) -> list[Moved]:
    aging = queue.aging(db)
    if aging is not None:
        raise AgingOrders(write_duration(aging))
    chosen = list({run.id: run for run in (_placed(find_run(db, handle)) for handle in handles)}.values())
    if len(chosen) > MOVED_AT_ONCE:
        raise InvalidValue(f"{len(chosen):,} runs are too many to move at once", hint=f"move {MOVED_AT_ONCE:,} at most")
    other = _other(db, destination, chosen) if destination.where is Where.BEFORE else None
    told: list[Moved] = []
    for rank in sorted({run.rank for run in chosen}, reverse=True):
        told += _move_within(db, [run for run in chosen if run.rank == rank], destination, other)
    events.note(db, "moved", now=now, runs=len(chosen), where=destination.where)
    by_id = {one.run.id: one for one in told}
    return [by_id[run.id] for run in chosen]


def _placed(run: Run) -> Run:
    if run.status is not Status.QUEUED:
        raise NotQueued(run.handle, run.status.shown)
    if run.lane_id == GROUP_LANE:
        raise InvalidValue(f"{run.handle} is the run of a group, which takes no place", hint="move its members")
    return run


def _other(db: Database, destination: Destination, chosen: Sequence[Run]) -> Run:
    other = _placed(find_run(db, destination.other))
    for run in chosen:
        if run.id == other.id:
            raise InvalidValue(f"{run.handle} cannot stand before itself", hint="name another run")
        if run.rank != other.rank:
            raise OtherPriority(run.handle, other.handle, priority=run.priority, wanted=other.priority)
    return other


def _move_within(db: Database, chosen: Sequence[Run], destination: Destination, other: Run | None) -> list[Moved]:
    move(db, chosen, Aim(destination.where, other, destination.place))
    after = order.runs_of(db, [run.id for run in chosen])
    ready = [run for run in after if run.waiting_for is None]
    first = order.place_of(db, ready[0], limit=PLACES) if ready else None
    places = {run.id: _shown(first, index) for index, run in enumerate(ready)}
    note = _note(db, destination, chosen[0], first)
    return [Moved(run, places.get(run.id), note) for run in after]


def _shown(first: int | None, index: int) -> int | None:
    return None if first is None or first + index > PLACES else first + index


def _note(db: Database, destination: Destination, run: Run, place: int | None) -> str:
    """Say why a run is not where it was sent: it cannot leave its priority."""
    sent = {Where.FIRST: 1, Where.TO: destination.place}.get(destination.where)
    if place == sent or destination.where is Where.BEFORE:
        return ""
    if sent is not None and (place is None or place > sent):
        return f"the first of priority {run.priority}" if order.count_above(db, run.rank, limit=1) else ""
    if order.next_rank(db, run.rank) is not None:
        return f"the last of priority {run.priority}"
    return "the queue ends there" if sent is not None else ""


@dataclass(frozen=True, slots=True)
class Edited:
    """A run before and after an edit, and its place now."""

    before: Run
    run: Run
    place: int | None


def edit_run(
    store: Store,
    handle: str,
    *,
    params: Mapping[str, Any] | None = None,
    priority: int | None = None,
    now: datetime,
    dry_run: bool = False,
) -> Edited:
    """Change a queued run: its params until it is dispatched for the first time, its priority until it starts."""
    if not params and priority is None:
        raise InvalidValue("nothing to change is named", hint="name a --param or a --priority")
    if priority is not None and priority not in PRIORITIES:
        raise InvalidValue(f"the priority {priority} is out of range", hint="priorities go from -1000 to 1000")
    operation = partial(_edit, handle=handle, params=params or {}, priority=priority, now=now)
    return tried(store, operation) if dry_run else store.write(touching(operation, what="edit", now=now))


def _edit(db: Database, *, handle: str, params: Mapping[str, Any], priority: int | None, now: datetime) -> Edited:
    run = find_run(db, handle)
    if params:
        _edit_params(db, run, params)
    if priority is not None:
        _edit_priority(db, run, priority)
    changed: dict[str, Any] = {"at": now.isoformat(), "params": sorted(params)}
    runs.note_decisions(db, run.id, {"edited": changed if priority is None else {**changed, "priority": priority}})
    events.note(db, "edited", now=now, job_id=run.job_id, run_id=run.id, params=sorted(params), priority=priority)
    after = runs.run_by_id(db, run.id)
    assert after is not None
    place = order.place_of(db, after, limit=PLACES) if after.waiting_for is None else None
    return Edited(run, after, place)


def _edit_params(db: Database, run: Run, params: Mapping[str, Any]) -> None:
    if run.first_dispatched_at is not None:
        raise Immutable(run.handle, run.status.shown)
    if run.status.final:
        raise RunIsFinal(run.handle, run.status)
    spec = jobs.version_spec(db, run.job_id, run.version)
    merged = merged_params(replace(spec, work=replace(spec.work, params={**spec.work.params, **run.params})), params)
    order.set_params(db, run.id, merged)


def _edit_priority(db: Database, run: Run, priority: int) -> None:
    if run.status is not Status.QUEUED:
        raise NotQueued(run.handle, run.status.shown)
    aging = queue.aging(db)
    place = place_of(priority, created_ms=created_ms(run.id), aging=aging)
    position = run.position if aging is None else place.position
    order.set_priority(db, run.id, priority=priority, rank=place.rank, position=position)
