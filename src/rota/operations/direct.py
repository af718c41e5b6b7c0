"""Direct calls (R-13, DEC-004): ask for a job's work in the next slot, look at the call, give it up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine import direct as calling
from rota.engine.birth import lane_of_job
from rota.engine.budget import refuse_exceeded
from rota.engine.cadence import touching
from rota.engine.lock import SERVE_LOCK, is_held
from rota.engine.wake import wake
from rota.model.errors import CallerDismissed, InvalidValue, NoScheduler
from rota.model.ids import new_id
from rota.model.records import Job, ProcessIdentity
from rota.model.spec import Draw, Kind
from rota.operations.direct_calls import DirectView, direct_view
from rota.operations.jobs import find_job
from rota.operations.starting import merged_params, refuse_disabled
from rota.runners.processes import alive, identity
from rota.store import direct, queue
from rota.store.driver import Database, Store


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
    call = direct.Call(new_id(now), job.id, job.name, job.version, lane_of_job(db, job), merged, caller, now)
    direct.ask(db, call)
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
    return sum(call.slot is None for call in direct.calls(db))


def withdraw(store: Store, state: Path, call_id: str, *, now: datetime) -> bool:
    """Give up a place in the line, or have a call that has started stopped; tell whether it was not over yet."""
    withdrawn = store.write(partial(calling.withdraw, call_id=call_id, now=now))
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
