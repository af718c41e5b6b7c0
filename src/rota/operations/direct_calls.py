"""Direct calls as users see them: waiting, running and ended."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from msgspec import Struct

from rota.model.ids import created_at
from rota.model.records import ProcessIdentity
from rota.model.serialize import to_shape
from rota.model.spec import JobSpec
from rota.model.states import Status
from rota.operations.jobs import find_job
from rota.store.driver import Database, Store
from rota.store.tables import direct_calls as direct_calls_table
from rota.store.tables import jobs


class DirectView(Struct, frozen=True):
    """A direct call: waiting behind `ahead` others, running in a slot, or ended."""

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
        """Its job, or the name of a reserved slot."""
        return self.job or direct_calls_table.RESERVED_SLOT

    @property
    def reserves(self) -> bool:
        """Whether the slot is for the caller's own code."""
        return self.version is None

    @property
    def asked_at(self) -> datetime:
        """When the caller requested it."""
        return created_at(self.id)


class DirectCallsView(Struct, frozen=True):
    """The direct calls of a project: those that wait, in order, and those with a slot."""

    waiting: tuple[DirectView, ...] = ()
    running: tuple[DirectView, ...] = ()


def direct_view(store: Store, call_id: str) -> DirectView | None:
    """Return a direct call or None; a withdrawn call leaves no row."""
    wanted = call_id.lower()

    def read(db: Database) -> DirectView | None:
        started = direct_calls_table.direct_by_id(db, wanted)
        if started is not None:
            return _started_view(started)
        line = direct_calls_table.calls(db)
        at = next((place for place, call in enumerate(line) if call.id == wanted), None)
        return None if at is None else _waiting_view(line[at], ahead=sum(call.slot is None for call in line[:at]))

    return store.read(read)


def direct_calls(db: Database) -> DirectCallsView:
    """Return the calls that wait for a slot and those with one."""
    line = direct_calls_table.calls(db)
    waiting = [call for call in line if call.slot is None]
    starting = [_waiting_view(call, ahead=0) for call in line if call.slot is not None]
    running = [_started_view(call) for call in direct_calls_table.unfinished(db)]
    waiting_views = tuple(_waiting_view(call, ahead=ahead) for ahead, call in enumerate(waiting))
    return DirectCallsView(waiting_views, (*running, *starting))


def _waiting_view(call: direct_calls_table.WaitingCall, *, ahead: int) -> DirectView:
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


def _started_view(call: direct_calls_table.Direct) -> DirectView:
    execution = call.execution
    return DirectView(
        id=call.id,
        job=call.job,
        version=execution.version,
        status=execution.status or Status.RUNNING,
        caller=call.caller,
        params=execution.params,
        slot=execution.slot,
        process=call.process,
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


class DirectCallJson(TypedDict):
    """A direct call, as `rota direct --json`."""

    id: str
    job: str | None
    direct: bool
    reserves: bool
    status: str
    reason: str | None
    ahead: int
    caller: int
    pid: int | None
    slot: int | None
    params: dict[str, Any]
    asked_at: str
    started_at: str | None
    finished_at: str | None
    exit_code: int | None
    error: str | None
    result_summary: str | None


class DirectCallsJson(TypedDict):
    """The direct calls that wait and run."""

    waiting: list[DirectCallJson]
    running: list[DirectCallJson]


def direct_json(view: DirectView) -> DirectCallJson:
    """Return a direct call as JSON."""
    return to_shape(
        DirectCallJson,
        view,
        direct=True,
        status=view.status.shown,
        caller=view.caller.pid,
        pid=view.process.pid if view.process else None,
        result_summary=view.summary,
    )


def calls_json(calls: DirectCallsView) -> DirectCallsJson:
    """Return the direct calls of a project as JSON."""
    return {
        "waiting": [direct_json(view) for view in calls.waiting],
        "running": [direct_json(view) for view in calls.running],
    }
