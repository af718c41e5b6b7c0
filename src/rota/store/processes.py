"""Workers, and the processes that schedule for them, each under an epoch of its own (R-22, R-23)."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.records import ProcessIdentity
from rota.store.driver import Database

Ending = Literal["clean", "detached", "lost"]


@dataclass(frozen=True, slots=True)
class OpenProcess:
    """A process that has not said goodbye."""

    epoch: int
    kind: str
    identity: ProcessIdentity
    lock: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, and the locks of its processes that have not said goodbye."""

    id: str
    name: str
    locks: tuple[str, ...]


def workers(db: Database) -> list[Worker]:
    """Return all workers, with the processes that may live."""
    return [Worker(worker_id, name, tuple(json.loads(locks))) for worker_id, name, locks in db.rows("workers_all")]


def ensure_worker(db: Database, *, worker_id: str, name: str, now: datetime) -> str:
    """Return the identifier of this state folder's worker, made at the first call."""
    row = db.row("worker_first")
    if row is not None:
        found: str = row[0]
        return found
    db.execute("worker_insert", id=worker_id, name=name, now=to_ms(now))
    return worker_id


def open_process(
    db: Database,
    *,
    worker_id: str,
    kind: str,
    identity: ProcessIdentity,
    lock: str,
    version: str,
    clock_offset: timedelta | None = None,
    now: datetime,
    unused: int | None = None,
) -> int:
    """Enter a process and return its epoch: a new one, or the newest where nothing was ever done under it."""
    entered = {
        "kind": kind,
        "boot_id": identity.boot_id,
        "pid": identity.pid,
        "pid_start": identity.start,
        "lock": lock,
        "version": version,
        "clock_offset": None if clock_offset is None else clock_offset // MILLISECOND,
        "now": to_ms(now),
    }
    row = db.row("process_reuse", epoch=unused, **entered) if unused is not None else None
    row = row or db.row("process_insert", worker_id=worker_id, **entered)
    assert row is not None
    epoch: int = row[0]
    return epoch


def end_process(db: Database, epoch: int, *, ending: Ending, now: datetime) -> None:
    """Note how a process ended."""
    db.execute("process_end", epoch=epoch, ending=ending, now=to_ms(now))


def open_processes(db: Database) -> list[OpenProcess]:
    """Return the processes that have not said goodbye, oldest first."""
    return [
        OpenProcess(epoch, kind, ProcessIdentity(boot_id, pid, start), lock, from_ms(started_at))
        for epoch, kind, boot_id, pid, start, lock, started_at in db.rows("processes_unended")
    ]


def epochs_with_runs(db: Database) -> list[int]:
    """Return the epochs that hold dispatched or running runs, whether or not they ended."""
    return [epoch for (epoch,) in db.rows("processes_with_runs")]
