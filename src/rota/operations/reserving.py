"""Direct calls for programs (R-13): await a job's end, or hold a slot while code of one's own runs."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine import direct as calling
from rota.engine.execute import pause_for
from rota.engine.wake import wake
from rota.model.clock import Clock
from rota.model.durations import say_duration
from rota.model.errors import CallerDismissed, NoSlot
from rota.model.ids import new_id
from rota.model.records import ERROR_LIMIT, Outcome, cut
from rota.model.spec import Draw
from rota.model.states import Reason, Status
from rota.operations.direct import ask_direct, look_at, refuse_too_large, require_scheduler, withdraw
from rota.operations.direct_calls import DirectView
from rota.operations.jobs import find_job
from rota.runners.processes import identity
from rota.store import direct, queue
from rota.store.driver import Database, Store

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
    outcome = calling.GIVEN_UP
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
    call = direct.Call(
        id=new_id(now),
        job_id=found.id if found else None,
        job=job,
        version=None,
        lane_id=lane_id,
        params={},
        caller=identity(),
        asked_at=now,
    )
    direct.ask(db, call)
    return call.id


def _hand_back(db: Database, *, call_id: str, outcome: Outcome, now: datetime) -> None:
    """End a reservation as its block ended; one that never got its slot gives up its place."""
    if not calling.finish(db, call_id, outcome, epoch=None, now=now):
        calling.withdraw(db, call_id, now=now)


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
