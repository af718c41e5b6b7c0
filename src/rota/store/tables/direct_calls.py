"""Rows of direct calls, waiting and started. They have an execution and no run."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from rota.model.clock import from_ms_or_none, to_ms
from rota.model.records import Execution, Outcome, ProcessIdentity
from rota.model.spec import Draw
from rota.rules.stats import usage_tally
from rota.store.driver import Database
from rota.store.rows import Record, columns_of, execution_of, record_by_name
from rota.store.tables.queue import draws_of
from rota.store.tables.runs import agent_of, artifacts_of
from rota.store.tallies import call_ended

RESERVED_SLOT = "reserved slot"
"""The name of a call without a job."""


class WaitingCall(Struct, frozen=True):
    """A direct call that has not started; without a version it reserves a slot for the caller's own code."""

    id: str
    job_id: str | None
    job: str | None
    version: int | None
    lane_id: int
    params: Mapping[str, Any]
    caller: ProcessIdentity
    asked_at: datetime
    draws: tuple[Draw, ...] = ()
    slot: int | None = None
    epoch: int | None = None

    @property
    def reserves(self) -> bool:
        """Whether the slot is for the caller's own code."""
        return self.version is None


class Direct(Struct, frozen=True):
    """A started direct call: its execution, and the process that executes it."""

    execution: Execution
    job: str | None
    caller: ProcessIdentity
    holder: int | None
    cancel_requested_at: datetime | None

    @property
    def id(self) -> str:
        """The call's identifier, the same before and after its start."""
        return self.execution.id

    @property
    def lane_id(self) -> int:
        """The lane of its pools."""
        assert self.execution.lane_id is not None, "the schema gives every direct call a lane"
        return self.execution.lane_id

    @property
    def reserves(self) -> bool:
        """Whether its slot is for the caller's own code."""
        return self.execution.version is None

    @property
    def process(self) -> ProcessIdentity:
        """The process in which it runs: its keeper, the scheduler, or the caller."""
        return ProcessIdentity(self.execution.boot_id, self.execution.pid, self.execution.pid_start)


def ask(db: Database, call: WaitingCall) -> None:
    """Queue a call behind the earlier ones."""
    db.execute("direct_ask", now=to_ms(call.asked_at), **columns_of(call), **_process(call.caller))


def _process(process: ProcessIdentity) -> dict[str, str | int]:
    return {"boot_id": process.boot_id, "pid": process.pid, "pid_start": process.start}


def calls(db: Database) -> list[WaitingCall]:
    """Return the waiting calls, oldest first."""
    return [_call(row) for row in db.records("direct_calls")]


def prefetch_anybody_waits(db: Database) -> None:
    """Prefetch `anybody_waits`."""
    db.prefetch("direct_waiting")


def anybody_waits(db: Database) -> bool:
    """Return whether a call waits for a slot; every claim reads this, so it reads nothing else."""
    return db.row("direct_waiting") is not None


def call_by_id(db: Database, call_id: str) -> WaitingCall | None:
    """Return a waiting call, None for none."""
    return next(map(_call, db.records("direct_call", id=call_id)), None)


def dispatch(db: Database, call_id: str, *, worker_id: str, slot: int, epoch: int) -> bool:
    """Give a waiting call a slot before its start."""
    return db.execute("direct_dispatch", id=call_id, worker_id=worker_id, slot=slot, epoch=epoch) == 1


def release(db: Database, call_id: str, *, epoch: int) -> bool:
    """Take the slot of a call that did not start; it keeps its place."""
    return db.execute("direct_release", id=call_id, epoch=epoch) == 1


def leave(db: Database, call_id: str, *, epoch: int | None) -> bool:
    """Remove a call from the queue; `epoch` is that of the process of its slot, None while it waits."""
    return db.execute("direct_leave", id=call_id, epoch=epoch) == 1


def dismiss(db: Database, boot_id: str | None = None) -> int:
    """Dismiss all waiting calls, or those of one machine; return the number."""
    return db.execute("direct_dismiss", boot_id=boot_id)


def begin(
    db: Database, call: WaitingCall, *, worker_id: str, slot: int, epoch: int, process: ProcessIdentity, now: datetime
) -> None:
    """Store the start of a call: its execution with its process, and the epoch that executes it."""
    owner = {"worker_id": worker_id, "slot": slot, "epoch": epoch, "caller": write_caller(call.caller)}
    db.execute("direct_begin", now=to_ms(now), **(columns_of(call) | owner | _process(process)))
    db.execute("direct_hold", id=call.id, epoch=epoch)


def finish(db: Database, call_id: str, outcome: Outcome, *, epoch: int | None, at: datetime) -> bool:
    """Store the end of a call of `epoch`, None: of any; return False if another process ended it first."""
    if db.execute("direct_let_go", id=call_id, epoch=epoch) != 1:
        return False
    ended = db.rows(
        "direct_finish",
        id=call_id,
        finished_at=to_ms(at),
        status=outcome.status,
        exit_code=outcome.exit_code,
        error=outcome.error,
        artifacts=artifacts_of(outcome, reason=outcome.reason),
    )
    for job_id, version in ended:
        usage = usage_tally(outcome.usage, agent_of(db, job_id, version))
        db.ended.append(call_ended(job_id, usage, at=to_ms(at)))
    return len(ended) == 1


def adopt(db: Database, call_id: str, *, epoch: int, expected: int) -> bool:
    """Move a call to another process."""
    return db.execute("direct_adopt", id=call_id, epoch=epoch, expected=expected) == 1


def ask_cancel(db: Database, call_id: str, *, now: datetime) -> bool:
    """Request the cancellation of a call; the first request counts."""
    return db.execute("direct_ask_cancel", id=call_id, now=to_ms(now)) == 1


def unfinished(db: Database) -> list[Direct]:
    """Return the started, unfinished calls, oldest first."""
    return [_direct(row) for row in db.records("direct_held")]


def direct_by_id(db: Database, call_id: str) -> Direct | None:
    """Return a started call, finished or not; None for none."""
    return next(map(_direct, db.records("direct_execution", id=call_id)), None)


def write_caller(caller: ProcessIdentity) -> str:
    """Return the stored text of a caller."""
    return f"{caller.pid}:{caller.start}:{caller.boot_id}"


def read_caller(text: str) -> ProcessIdentity:
    """Return the caller of a stored text."""
    pid, start, boot_id = text.split(":", 2)
    return ProcessIdentity(boot_id, int(pid), int(start))


def _call(row: Record) -> WaitingCall:
    caller = ProcessIdentity(row["boot_id"], row["pid"], row["pid_start"])
    return record_by_name(WaitingCall, row, caller=caller, draws=draws_of(row["lane"]))


def _direct(row: Record) -> Direct:
    cancel_requested_at = from_ms_or_none(row["cancel_requested_at"])
    return Direct(execution_of(row), row["job"], read_caller(row["caller"]), row["holder"], cancel_requested_at)
