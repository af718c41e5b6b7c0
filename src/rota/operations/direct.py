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
from rota.model.clock import iso
from rota.model.errors import CallerDismissed, InvalidValue, NoScheduler
from rota.model.ids import created_at, new_id
from rota.model.records import Job, ProcessIdentity
from rota.model.spec import Draw, JobSpec, Kind
from rota.model.states import Status
from rota.operations.jobs import find_job
from rota.operations.runs import merged_params, refuse_disabled
from rota.runners.processes import alive, identity
from rota.store import direct, jobs, queue
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class DirectView:
    """A direct call as faces show it: waiting behind `ahead` others, at work in a slot, or ended."""

    id: str
    job: str | None
    version: int | None
    status: Status
    caller: ProcessIdentity
    params: Mapping[str, Any]
    ahead: int = 0
    slot: int | None = None
    process: ProcessIdentity | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str | None = None
    exit_code: int | None = None
    error: str | None = None
    summary: str | None = None
    output_bytes: int = 0

    @property
    def name(self) -> str:
        """What people call it: its job, or a slot that was reserved."""
        return self.job or calling.RESERVED_SLOT

    @property
    def reserves(self) -> bool:
        """Whether the slot is for the caller's own code."""
        return self.version is None

    @property
    def asked_at(self) -> datetime:
        """When the caller asked."""
        return created_at(self.id)


@dataclass(frozen=True, slots=True)
class DirectCalls:
    """The direct calls of a project: who waits, first come first, and who has a slot."""

    waiting: tuple[DirectView, ...] = ()
    running: tuple[DirectView, ...] = ()


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


def direct_view(store: Store, call_id: str) -> DirectView | None:
    """Return a direct call, None for none: whoever gave up waiting leaves nothing behind."""
    return store.read(partial(_view, call_id=call_id.lower()))


def _view(db: Database, *, call_id: str) -> DirectView | None:
    started = direct.direct_by_id(db, call_id)
    if started is not None:
        return _started_view(started)
    line = direct.calls(db)
    at = next((place for place, call in enumerate(line) if call.id == call_id), None)
    return None if at is None else _waiting_view(line[at], ahead=sum(call.slot is None for call in line[:at]))


def direct_calls(db: Database) -> DirectCalls:
    """Return who waits for a slot and who has one."""
    line = direct.calls(db)
    waiting = [call for call in line if call.slot is None]
    starting = [_waiting_view(call, ahead=0) for call in line if call.slot is not None]
    running = [_started_view(one) for one in direct.unfinished(db)]
    return DirectCalls(
        tuple(_waiting_view(call, ahead=ahead) for ahead, call in enumerate(waiting)), (*running, *starting)
    )


def _waiting_view(call: direct.Call, *, ahead: int) -> DirectView:
    return DirectView(
        id=call.id,
        job=call.job,
        version=call.version,
        status=Status.QUEUED if call.slot is None else Status.DISPATCHED,
        caller=call.caller,
        params=call.params,
        ahead=ahead,
        slot=call.slot,
    )


def _started_view(found: direct.Direct) -> DirectView:
    execution = found.execution
    return DirectView(
        id=found.id,
        job=found.job,
        version=execution.version,
        status=execution.status or Status.RUNNING,
        caller=found.caller,
        params=execution.params,
        slot=execution.slot,
        process=found.process,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        reason=execution.artifacts.get("reason"),
        exit_code=execution.exit_code,
        error=execution.error,
        summary=execution.artifacts.get("summary"),
        output_bytes=execution.artifacts.get("output_bytes", 0),
    )


def direct_spec(store: Store, view: DirectView) -> JobSpec | None:
    """Return the definition that a call executes, None for a reserved slot."""
    if view.job is None or view.version is None:
        return None
    name, version = view.job, view.version
    return store.read(lambda db: jobs.version_spec(db, find_job(db, name).id, version))


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


def direct_json(view: DirectView) -> dict[str, Any]:
    """Return a direct call in the fixed shape that others build on."""
    return {
        "id": view.id,
        "job": view.job,
        "direct": True,
        "reserves": view.reserves,
        "status": view.status.shown.value,
        "reason": view.reason,
        "ahead": view.ahead,
        "caller": view.caller.pid,
        "pid": view.process.pid if view.process else None,
        "slot": view.slot,
        "params": dict(view.params),
        "asked_at": iso(view.asked_at),
        "started_at": iso(view.started_at) if view.started_at else None,
        "finished_at": iso(view.finished_at) if view.finished_at else None,
        "exit_code": view.exit_code,
        "error": view.error,
        "result_summary": view.summary,
    }


def calls_json(calls: DirectCalls) -> dict[str, Any]:
    """Return the direct calls of a project as JSON."""
    return {
        "waiting": [direct_json(view) for view in calls.waiting],
        "running": [direct_json(view) for view in calls.running],
    }
