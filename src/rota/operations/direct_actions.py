"""Direct calls: start, reserve a slot, wait."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.activity import touching
from rota.engine.loops.executor import pause_for
from rota.engine.membership.control import wake
from rota.engine.membership.locks import SERVE_LOCK
from rota.engine.transactions import direct_calls
from rota.engine.transactions.budgets import refuse_exceeded
from rota.engine.transactions.insert import lane_of_job
from rota.model.clock import Clock, say_duration
from rota.model.errors import CallerDismissed, InvalidValue, NoScheduler, NoSlot
from rota.model.ids import new_id
from rota.model.records import ERROR_LIMIT, Job, Outcome, ProcessIdentity, cut
from rota.model.spec import Draw, Kind
from rota.model.states import Reason, Status
from rota.operations.direct_calls import DirectView, direct_view
from rota.operations.jobs import find_job
from rota.operations.run_actions import merged_params, refuse_disabled
from rota.runners.processes import alive, identity
from rota.store.driver import Database, Store
from rota.store.sqlite.store import is_held
from rota.store.tables import direct_calls as calls_table
from rota.store.tables import queue


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a direct call would do."""

    job: Job
    params: Mapping[str, Any]
    ahead: int


def ask_direct(
    store: Store,
    state: Path,
    name: str,
    *,
    now: datetime,
    params: Mapping[str, Any] | None = None,
    caller: ProcessIdentity | None = None,
) -> str:
    """Ask for a job's work in the next free slot, before the whole queue; return the call's identifier.

    Only slot, pools and budgets are asked for: conditions, overlap and pauses of the job do not apply. Without room in
    a budget it is refused. The caller is watched: when its process ends, the call is cancelled.
    """
    require_scheduler(state)
    call_id = store.write(
        touching(
            partial(ask_for_work, name=name, params=params, caller=caller or identity(), now=now),
            what="direct",
            now=now,
        )
    )
    wake(state)
    return call_id


def ask_for_work(
    db: Database, *, name: str, params: Mapping[str, Any] | None, caller: ProcessIdentity, now: datetime
) -> str:
    """Put a caller in the line for a job's work; return the call's identifier."""
    job = _callable_job(db, name)
    refuse_too_large(db, job.spec.pools)
    refuse_exceeded(db, job.spec, job_id=job.id, now=now)
    merged = merged_params(job.spec, params)
    call = calls_table.WaitingCall(
        new_id(now), job.id, job.name, job.version, lane_of_job(db, job), merged, caller, now
    )
    calls_table.ask(db, call)
    return call.id


def _callable_job(db: Database, name: str) -> Job:
    job = find_job(db, name)
    refuse_disabled(job)
    if job.spec.work.kind is Kind.GROUP:
        raise InvalidValue(f"{name!r} is a group, a direct call executes one job", hint=f"`rota run {name}` starts it")
    return job


def refuse_too_large(db: Database, draws: Sequence[Draw]) -> None:
    """Refuse a draw that no pool could ever grant: the caller would wait for ever."""
    capacity = {pool.name: pool.capacity for pool in queue.pools(db) if pool.declared}
    for draw in draws:
        if draw.pool not in capacity:
            known = ", ".join(sorted(capacity)) or "none"
            raise InvalidValue(f"no pool is named {draw.pool!r}", hint=f"declared pools: {known}")
        if draw.cost > capacity[draw.pool]:
            text = f"pool {draw.pool!r} holds {capacity[draw.pool]}, the call would draw {draw.cost}"
            raise InvalidValue(text, hint="raise it under `pools:`, or draw less")


def require_scheduler(state: Path) -> None:
    """Refuse what only a living scheduler can do."""
    if not is_held(state / SERVE_LOCK):
        raise NoScheduler(str(state))


def rehearse_direct(store: Store, name: str, *, params: Mapping[str, Any] | None = None) -> Rehearsed:
    """Return what a direct call would do; nothing is asked for."""

    def read(db: Database) -> Rehearsed:
        job = _callable_job(db, name)
        refuse_too_large(db, job.spec.pools)
        return Rehearsed(job, merged_params(job.spec, params), ahead=_waiting(db))

    return store.read(read)


def _waiting(db: Database) -> int:
    return sum(call.slot is None for call in calls_table.calls(db))


def withdraw(store: Store, state: Path, call_id: str, *, now: datetime) -> bool:
    """Give up a place in the line, or have a call that has started stopped; tell whether it was not over yet."""
    withdrawn = store.write(partial(direct_calls.withdraw, call_id=call_id, now=now))
    wake(state)
    return withdrawn


def unattended(state: Path, view: DirectView) -> bool:
    """Tell whether nobody is left to end a call: no scheduler, and the process in which it ran is gone."""
    if is_held(state / SERVE_LOCK):
        return False
    return view.process is None or view.finished_at is not None or not alive(view.process)


def look_at(store: Store, state: Path, call_id: str, *, name: str) -> DirectView:
    """Return a call that its caller follows; raise when the scheduler is gone and nobody will carry it on."""
    unserved = not is_held(state / SERVE_LOCK)  # before the row: a scheduler that stops tells the row first
    view = direct_view(store, call_id)
    if view is None:
        raise CallerDismissed(name)
    if unserved and not view.status.final and unattended(state, view):
        raise CallerDismissed(name, "stopped before it began" if view.started_at is None else "is gone")
    return view


OWN_CODE = "the caller's own code"
FIRST_PAUSE, LONGEST_PAUSE = timedelta(milliseconds=50), timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A slot that is the caller's until it leaves the block."""

    id: str
    slot: int


async def direct_call(
    store: Store,
    state: Path,
    clock: Clock,
    *,
    job: str,
    params: Mapping[str, Any] | None = None,
    within: timedelta | None = None,
) -> DirectView:
    """Call a job directly and wait for its end; who stops waiting cancels it, `within` bounds the wait for a slot."""
    call_id = ask_direct(store, state, job, now=clock.now(), params=params)
    try:
        return await _until(store, state, clock, call_id=call_id, name=job, within=within, started=False)
    except BaseException:
        withdraw(store, state, call_id, now=clock.now())
        raise


@contextlib.asynccontextmanager
async def reserve_slot(
    store: Store,
    state: Path,
    clock: Clock,
    *,
    pools: Sequence[str] | Mapping[str, int] = (),
    job: str | None = None,
    within: timedelta | None = None,
) -> AsyncIterator[Reservation]:
    """Hold the next free slot, and room in `pools` or those of `job`, while the block's own code runs (R-13)."""
    require_scheduler(state)
    call_id = store.write(partial(_ask_slot, pools=pools, job=job, now=clock.now()))
    name = job or OWN_CODE
    outcome = direct_calls.GIVEN_UP
    try:
        wake(state)
        view = await _until(store, state, clock, call_id=call_id, name=name, within=within, started=True)
        if view.status.final or view.slot is None:
            raise CallerDismissed(name)
        yield Reservation(call_id, view.slot)
        outcome = Outcome(Status.COMPLETED)
    except Exception as error:
        text = cut(f"{type(error).__name__}: {error}", ERROR_LIMIT)
        outcome = Outcome(Status.FAILED, Reason.EXCEPTION, error=text)
        raise
    finally:
        store.write(partial(_hand_back, call_id=call_id, outcome=outcome, now=clock.now()))
        wake(state)


def _ask_slot(db: Database, *, pools: Sequence[str] | Mapping[str, int], job: str | None, now: datetime) -> str:
    found = find_job(db, job) if job is not None else None
    costs = {draw.pool: draw.cost for draw in found.spec.pools} if found else {}
    costs.update(pools if isinstance(pools, Mapping) else dict.fromkeys(pools, 1))
    draws = [Draw(pool, cost) for pool, cost in sorted(costs.items())]
    refuse_too_large(db, draws)
    lane_id = queue.lane_of(db, draws)
    call = calls_table.WaitingCall(
        id=new_id(now),
        job_id=found.id if found else None,
        job=job,
        version=None,
        lane_id=lane_id,
        params={},
        caller=identity(),
        asked_at=now,
    )
    calls_table.ask(db, call)
    return call.id


def _hand_back(db: Database, *, call_id: str, outcome: Outcome, now: datetime) -> None:
    """End a reservation as its block ended; one that never got its slot gives up its place."""
    if not direct_calls.finish(db, call_id, outcome, epoch=None, now=now):
        direct_calls.withdraw(db, call_id, now=now)


async def _until(
    store: Store, state: Path, clock: Clock, *, call_id: str, name: str, within: timedelta | None, started: bool
) -> DirectView:
    """Wait until a call has started, or has ended; the pause between two looks grows."""
    began, pause = clock.monotonic(), FIRST_PAUSE
    while True:
        view = look_at(store, state, call_id, name=name)
        if view.status.final or (started and view.started_at is not None):
            return view
        waited = timedelta(seconds=clock.monotonic() - began)
        if within is not None and waited >= within and view.started_at is None:
            raise NoSlot(name, say_duration(within))
        await pause_for(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


LOOK_AGAIN = timedelta(milliseconds=100)


async def wait_a_little(duration: timedelta) -> None:
    """Wait for an elapsed time on the running loop."""
    await pause_for(duration)
