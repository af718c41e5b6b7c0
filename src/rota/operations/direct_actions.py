"""Direct calls: start, reserve a slot, wait."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.engine.activity import touching
from rota.engine.loops.loop import pause_for
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


class Rehearsed(Struct, frozen=True):
    """The dry run of a direct call."""

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
    """Request a job's work in the next free slot, before the whole queue; return the call's identifier.

    The call needs a slot, pools and budgets: conditions, overlap and pauses of the job do not apply. A call without
    room in a budget is refused. When the caller's process ends, the call is cancelled.
    """
    require_scheduler(state)
    operation = partial(ask_for_work, name=name, params=params, caller=caller or identity(), now=now)
    call_id = store.write(touching(operation, what="direct", now=now))
    wake(state)
    return call_id


def ask_for_work(
    db: Database, *, name: str, params: Mapping[str, Any] | None, caller: ProcessIdentity, now: datetime
) -> str:
    """Insert a waiting call of a job; return its identifier."""
    job = _callable_job(db, name)
    refuse_exceeded(db, job.spec, job_id=job.id, now=now)
    merged, lane_id = merged_params(job.spec, params), lane_of_job(db, job)
    call = calls_table.WaitingCall(new_id(now), job.id, job.name, job.version, lane_id, merged, caller, now)
    calls_table.ask(db, call)
    return call.id


def _callable_job(db: Database, name: str) -> Job:
    job = find_job(db, name)
    refuse_disabled(job)
    if job.spec.work.kind is Kind.GROUP:
        raise InvalidValue(f"{name!r} is a group, a direct call executes one job", hint=f"`rota run {name}` starts it")
    _refuse_too_large(db, job.spec.pools)
    return job


def _refuse_too_large(db: Database, draws: Sequence[Draw]) -> None:
    """Refuse a draw above the capacity of its pool: the caller would wait forever."""
    capacity = {pool.name: pool.capacity for pool in queue.pools(db) if pool.declared}
    for draw in draws:
        if draw.pool not in capacity:
            declared = ", ".join(sorted(capacity)) or "none"
            raise InvalidValue(f"no pool is named {draw.pool!r}", hint=f"declared pools: {declared}")
        if draw.cost > capacity[draw.pool]:
            text = f"pool {draw.pool!r} holds {capacity[draw.pool]}, the call needs {draw.cost}"
            raise InvalidValue(text, hint="raise it under `pools:`, or use less")


def require_scheduler(state: Path) -> None:
    """Raise NoScheduler unless a scheduler is running."""
    if not is_held(state / SERVE_LOCK):
        raise NoScheduler(str(state))


def rehearse_direct(store: Store, name: str, *, params: Mapping[str, Any] | None = None) -> Rehearsed:
    """Return what a direct call would do; nothing is stored."""

    def read(db: Database) -> Rehearsed:
        job = _callable_job(db, name)
        waiting = sum(call.slot is None for call in calls_table.calls(db))
        return Rehearsed(job, merged_params(job.spec, params), ahead=waiting)

    return store.read(read)


def withdraw(store: Store, state: Path, call_id: str, *, now: datetime) -> bool:
    """Withdraw a waiting call, or stop a started one; return whether it was unfinished."""
    withdrawn = store.write(partial(direct_calls.withdraw, call_id=call_id, now=now))
    wake(state)
    return withdrawn


def unattended(state: Path, view: DirectView) -> bool:
    """Return whether nothing can end a call: no scheduler is running, and the process of the call is gone."""
    if is_held(state / SERVE_LOCK):
        return False
    return view.process is None or view.finished_at is not None or not alive(view.process)


def look_at(store: Store, state: Path, call_id: str, *, name: str) -> DirectView:
    """Return a call that its caller follows; raise when no scheduler will execute it."""
    unserved = not is_held(state / SERVE_LOCK)  # before the row: a stopping scheduler writes the row first
    view = direct_view(store, call_id)
    if view is None:
        raise CallerDismissed(name)
    if unserved and not view.status.final and unattended(state, view):
        raise CallerDismissed(name, "stopped before it started" if view.started_at is None else "is gone")
    return view


OWN_CODE = "the caller's own code"
FIRST_PAUSE, LONGEST_PAUSE = timedelta(milliseconds=50), timedelta(milliseconds=500)


class Reservation(Struct, frozen=True):
    """A slot that belongs to the caller until it leaves the block."""

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
    """Call a job directly and wait for its end; `within` limits the wait for a slot. An exception cancels the call."""
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
    """Reserve the next free slot, and room in `pools` or the pools of `job`, while the block runs."""
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
        ended_at = clock.now()

        def release(db: Database) -> None:
            if not direct_calls.finish(db, call_id, outcome, epoch=None, now=ended_at):
                direct_calls.withdraw(db, call_id, now=ended_at)  # it never got a slot

        store.write(release)
        wake(state)


def _ask_slot(db: Database, *, pools: Sequence[str] | Mapping[str, int], job: str | None, now: datetime) -> str:
    stored = find_job(db, job) if job is not None else None
    costs = {draw.pool: draw.cost for draw in stored.spec.pools} if stored else {}
    costs.update(pools if isinstance(pools, Mapping) else dict.fromkeys(pools, 1))
    draws = [Draw(pool, cost) for pool, cost in sorted(costs.items())]
    _refuse_too_large(db, draws)
    lane_id, job_id = queue.lane_of(db, draws), stored.id if stored else None
    call = calls_table.WaitingCall(new_id(now), job_id, job, None, lane_id, {}, identity(), now)
    calls_table.ask(db, call)
    return call.id


async def _until(
    store: Store, state: Path, clock: Clock, *, call_id: str, name: str, within: timedelta | None, started: bool
) -> DirectView:
    """Poll with growing pauses until a call has started, or has ended."""
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
    """Sleep on the running event loop."""
    await pause_for(duration)
