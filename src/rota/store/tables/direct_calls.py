"""Direct calls (R-13): who waits for a slot, who has one, and the executions that they become. They have no run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import from_ms, from_ms_or_none, to_ms
from rota.model.records import Execution, Outcome, ProcessIdentity
from rota.model.spec import Draw
from rota.store.driver import Database
from rota.store.rows import Record, execution_of, read_object, write_json
from rota.store.tables.queue import draws_of
from rota.store.tables.runs import artifacts_of

RESERVED_SLOT = "reserved slot"
"""What a call is called that asks for no job."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A direct call that has not started; without a version the slot itself is asked for, for the caller's own code."""

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


@dataclass(frozen=True, slots=True)
class Direct:
    """A direct call that started: its execution, and while it is unfinished who carries it."""

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
        """What it draws on."""
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
    """Give a caller its place, behind those who came before."""
    db.execute(
        "direct_ask",
        id=call.id,
        job_id=call.job_id,
        version=call.version,
        lane_id=call.lane_id,
        params=write_json(call.params),
        boot_id=call.caller.boot_id,
        pid=call.caller.pid,
        pid_start=call.caller.start,
        now=to_ms(call.asked_at),
    )


def calls(db: Database) -> list[WaitingCall]:
    """Return the calls that have not started, first come first."""
    return [_call(row) for row in db.records("direct_calls")]


def prefetch_anybody_waits(db: Database) -> None:
    """Ask `anybody_waits` ahead."""
    db.prefetch("direct_waiting")


def anybody_waits(db: Database) -> bool:
    """Tell whether somebody waits for a slot: asked at every claim, so it reads no more than that."""
    return db.row("direct_waiting") is not None


def call_by_id(db: Database, call_id: str) -> WaitingCall | None:
    """Return a call that has not started, None for none."""
    found = db.records("direct_call", id=call_id)
    return _call(found[0]) if found else None


def dispatch(db: Database, call_id: str, *, worker_id: str, slot: int, epoch: int) -> bool:
    """Give a waiting call a slot, in which it is about to start (R-01)."""
    return db.execute("direct_dispatch", id=call_id, worker_id=worker_id, slot=slot, epoch=epoch) == 1


def release(db: Database, call_id: str, *, epoch: int) -> bool:
    """Let a call wait again that had a slot and did not start; it keeps its turn."""
    return db.execute("direct_release", id=call_id, epoch=epoch) == 1


def leave(db: Database, call_id: str, *, epoch: int | None) -> bool:
    """Take a call out of the line; `epoch` is that of the process whose slot it has, None while it waits."""
    return db.execute("direct_leave", id=call_id, epoch=epoch) == 1


def dismiss(db: Database, boot_id: str | None = None) -> int:
    """Send all away who wait, or all who wait on one machine; return how many."""
    return db.execute("direct_dismiss", boot_id=boot_id)


def begin(
    db: Database, call: WaitingCall, *, worker_id: str, slot: int, epoch: int, process: ProcessIdentity, now: datetime
) -> None:
    """Store the start of a call: its execution, with the process in which it runs, and who carries it."""
    db.execute(
        "direct_begin",
        id=call.id,
        job_id=call.job_id,
        version=call.version,
        lane_id=call.lane_id,
        params=write_json(call.params),
        caller=write_caller(call.caller),
        worker_id=worker_id,
        slot=slot,
        epoch=epoch,
        boot_id=process.boot_id,
        pid=process.pid,
        pid_start=process.start,
        now=to_ms(now),
    )
    db.execute("direct_hold", id=call.id, epoch=epoch)


def finish(db: Database, call_id: str, outcome: Outcome, *, epoch: int | None, at: datetime) -> bool:
    """Store the end of a call that `epoch` carries; None: whoever does. No row changed: somebody else acted first."""
    if db.execute("direct_let_go", id=call_id, epoch=epoch) != 1:
        return False
    changed = db.execute(
        "direct_finish",
        id=call_id,
        finished_at=to_ms(at),
        status=outcome.status,
        exit_code=outcome.exit_code,
        error=outcome.error,
        artifacts=artifacts_of(outcome, reason=outcome.reason),
    )
    return changed == 1


def adopt(db: Database, call_id: str, *, epoch: int, expected: int) -> bool:
    """Let another process carry a call (R-23)."""
    return db.execute("direct_adopt", id=call_id, epoch=epoch, expected=expected) == 1


def ask_cancel(db: Database, call_id: str, *, now: datetime) -> bool:
    """Note that a call must stop; the first wish stands."""
    return db.execute("direct_ask_cancel", id=call_id, now=to_ms(now)) == 1


def unfinished(db: Database) -> list[Direct]:
    """Return the calls that started and have not ended, oldest first."""
    return [_direct(row) for row in db.records("direct_held")]


def direct_by_id(db: Database, call_id: str) -> Direct | None:
    """Return a call that started, finished or not; None for none."""
    found = db.records("direct_execution", id=call_id)
    return _direct(found[0]) if found else None


def write_caller(caller: ProcessIdentity) -> str:
    """Return a caller as executions name it."""
    return f"{caller.pid}:{caller.start}:{caller.boot_id}"


def read_caller(text: str) -> ProcessIdentity:
    """Return the caller that an execution names."""
    pid, start, boot_id = text.split(":", 2)
    return ProcessIdentity(boot_id, int(pid), int(start))


def _call(row: Record) -> WaitingCall:
    return WaitingCall(
        id=row["id"],
        job_id=row["job_id"],
        job=row["job"],
        version=row["version"],
        lane_id=row["lane_id"],
        params=read_object(row["params"]),
        caller=ProcessIdentity(row["boot_id"], row["pid"], row["pid_start"]),
        asked_at=from_ms(row["asked_at"]),
        draws=draws_of(row["lane"]),
        slot=row["slot"],
        epoch=row["epoch"],
    )


def _direct(row: Record) -> Direct:
    return Direct(
        execution=execution_of(row),
        job=row["job"],
        caller=read_caller(row["caller"]),
        holder=row["holder"],
        cancel_requested_at=from_ms_or_none(row["cancel_requested_at"]),
    )
