"""Workers: the state folders whose processes claim runs, with their names and labels (R-04, R-23)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.rules.lease import LEASE
from rota.rules.takes import EVERYTHING, Takes, read_takes, takes_json
from rota.store import processes
from rota.store.driver import Database
from rota.store.rows import write_json

CAPACITY = "worker:"
"""Before the identifier of a worker: under which key what it takes is kept."""
CRASHES = "crashes:"
"""Before the identifier of a worker: under which key is kept after how many crashes it was drained."""
CLOCK = "clock:"
"""Before the identifier of a worker: under which key is kept by how much its clock is wrong."""
FORGOTTEN = "~"
"""Stands between the name that a forgotten worker had and its identifier: no name has it."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker: the folder `state` on the machine `host`; one that is `draining` finishes what it has."""

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    state: str = ""
    draining: bool = False
    created_at: datetime | None = None

    @property
    def forgotten(self) -> bool:
        """Whether somebody took it off the list; its row stays for the runs that it had."""
        return self.name.endswith(f"{FORGOTTEN}{self.id}")

    @property
    def called(self) -> str:
        """Its name, also once it was forgotten."""
        return self.name.partition(FORGOTTEN)[0]


def workers(db: Database) -> list[Worker]:
    """Return all workers, those that were forgotten too."""
    return [_worker(*row) for row in db.rows("workers_all")]


def worker_by_id(db: Database, worker_id: str) -> Worker | None:
    """Return a worker."""
    row = db.row("worker_by_id", id=worker_id)
    return _worker(*row) if row is not None else None


def worker_by_name(db: Database, name: str) -> Worker | None:
    """Return the worker of this name."""
    row = db.row("worker_by_name", name=name)
    return _worker(*row) if row is not None else None


def only_worker(db: Database) -> str | None:
    """Return the worker of a database that one folder has to itself, None where it has none yet."""
    row = db.row("worker_first")
    return row[0] if row is not None else None


def last_seen(db: Database, worker_id: str) -> datetime | None:
    """Return when a worker last gave a sign of life; None where it never had a process."""
    row = db.row("worker_seen", worker_id=worker_id, lease=LEASE // MILLISECOND)
    return None if row is None else from_ms_or_none(row[0])


def insert_worker(db: Database, worker: Worker, *, now: datetime) -> bool:
    """Store a new worker; tell whether its name was free."""
    return db.execute("worker_insert", now=to_ms(now), **_stored(worker)) == 1


def update_worker(db: Database, worker: Worker) -> None:
    """Store the name, labels and place of a worker."""
    db.execute("worker_update", **_stored(worker))


def drain(db: Database, worker_id: str, *, draining: bool, crashes: int = 0) -> bool:
    """Let a worker take no more runs, maybe because of `crashes`, or take them again; tell whether that is new."""
    changed = db.execute("worker_drain", id=worker_id, draining=int(draining)) == 1
    if not draining:
        processes.forgive_crashes(db, worker_id)
    if changed and crashes:
        db.execute("meta_set", key=f"{CRASHES}{worker_id}", value=str(crashes))
    elif changed:
        db.execute("meta_delete", key=f"{CRASHES}{worker_id}")
    return changed


def crashes(db: Database, worker_id: str) -> int:
    """Return after how many crashes a worker was drained, 0 if somebody did that."""
    row = db.row("meta_get", key=f"{CRASHES}{worker_id}")
    return int(row[0]) if row is not None else 0


def note_skew(db: Database, worker_id: str, *, skew: timedelta | None) -> None:
    """Store by how much the clock of a worker is ahead of the server's, negative: behind; None: it is right."""
    if skew is None:
        db.execute("meta_delete", key=f"{CLOCK}{worker_id}")
    else:
        db.execute("meta_set", key=f"{CLOCK}{worker_id}", value=str(skew // MILLISECOND))


def skew(db: Database, worker_id: str) -> timedelta | None:
    """Return by how much the clock of a worker is wrong, None where it is right."""
    row = db.row("meta_get", key=f"{CLOCK}{worker_id}")
    return int(row[0]) * MILLISECOND if row is not None else None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a worker said when it last entered: which runs it takes, and how many at the same time."""

    takes: Takes = EVERYTHING
    slots: int | None = None


UNTOLD = Capacity()


def note_capacity(db: Database, worker_id: str, *, takes: Takes, slots: int | None) -> None:
    """Store what a worker takes; nothing is written where that is what is known."""
    told = Capacity(takes, slots)
    if capacity(db, worker_id) != told:
        value = write_json({**takes_json(takes), "slots": slots})
        db.execute("meta_set", key=f"{CAPACITY}{worker_id}", value=value)


def capacity(db: Database, worker_id: str) -> Capacity:
    """Return what a worker takes."""
    row = db.row("meta_get", key=f"{CAPACITY}{worker_id}")
    if row is None:
        return UNTOLD
    found = json.loads(row[0])
    return Capacity(read_takes(found), found["slots"])


def _stored(worker: Worker) -> dict[str, str]:
    return {
        "id": worker.id,
        "name": worker.name,
        "labels": write_json(dict(worker.labels)),
        "host": worker.host,
        "state": worker.state,
    }


def _worker(id_: str, name: str, labels: str, host: str, state: str, draining: int, created_at: int) -> Worker:
    return Worker(id_, name, json.loads(labels), host, state, bool(draining), from_ms(created_at))
