"""Rows of processes and workers, and the locks between them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.records import ProcessIdentity
from rota.rules.liveness import LEASE
from rota.rules.queue_order import EVERYTHING, PoolFilter, read_takes, takes_json
from rota.store.driver import Database
from rota.store.migrate import newest_schema
from rota.store.rows import write_json

Ending = Literal["clean", "detached", "lost"]


FORGIVEN, EVERYBODY = "forgiven:", ""
"""Up to which process crashes count no longer, by worker, and for all of them."""


@dataclass(frozen=True, slots=True)
class OpenProcess:
    """A process that has not said goodbye; on a shared database it counts as alive until `lease_until`."""

    epoch: int
    kind: str
    identity: ProcessIdentity
    lock: str
    started_at: datetime
    worker_id: str = ""
    lease_until: datetime | None = None
    version: str = ""
    """The rota that it is."""


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A process of another worker whose lease is over."""

    epoch: int
    worker: str
    host: str
    kind: str


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
        "worker_id": worker_id,
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
    row = row or db.row("process_insert", **entered)
    assert row is not None
    epoch: int = row[0]
    return epoch


def end_process(db: Database, epoch: int, *, ending: Ending, now: datetime) -> None:
    """Note how a process ended."""
    db.execute("process_end", epoch=epoch, ending=ending, now=to_ms(now))


def open_processes(db: Database) -> list[OpenProcess]:
    """Return the processes that have not said goodbye, oldest first."""
    found = db.rows("processes_unended")
    return [
        OpenProcess(
            epoch,
            kind,
            ProcessIdentity(boot_id, pid, start),
            lock,
            from_ms(started_at),
            worker_id,
            from_ms_or_none(lease_until),
            version,
        )
        for epoch, kind, boot_id, pid, start, lock, started_at, worker_id, lease_until, version in found
    ]


def epochs_with_runs(db: Database, worker_id: str | None = None) -> list[int]:
    """Return the epochs that hold dispatched or running runs, whether or not they ended; of one worker, or of all."""
    found = db.rows("processes_with_runs")
    return [epoch for epoch, owner in found if worker_id is None or owner == worker_id]


def is_shared(db: Database) -> bool:
    """Tell whether folders of several machines use this database, so that only leases tell who is alive."""
    row = db.row("store_shared")
    return row is not None and bool(row[0])


def server_now(db: Database) -> datetime:
    """Return the time by the database's clock: leases are counted on no other."""
    row = db.row("server_clock")
    assert row is not None
    return from_ms(row[0])


def renew_lease(db: Database, epoch: int, *, lease: timedelta) -> datetime | None:
    """Say that a process is alive; return until when it counts so.

    None: it was declared lost, or a newer rota upgraded the database while its lease was over.
    """
    db.announces = False  # nobody need look again
    row = db.row("process_lease", epoch=epoch, lease=lease // MILLISECOND, schema=newest_schema())
    return from_ms(row[0]) if row is not None else None


def others_that_fire(db: Database, *, worker_id: str) -> list[OpenProcess]:
    """Return the living processes of other workers that fire what is due."""
    found = [one for one in open_processes(db) if one.worker_id != worker_id and one.kind != "worker"]
    now = server_now(db) if found else None
    return [one for one in found if now is not None and one.lease_until is not None and one.lease_until >= now]


def lapsed_processes(db: Database, *, but: str) -> list[Lapsed]:
    """Return the processes of all workers but one whose leases are over."""
    return [Lapsed(*row) for row in db.rows("processes_lapsed", worker_id=but)]


def still_lapsed(db: Database, epoch: int, *, forced: bool = False) -> bool:
    """Tell whether a lease is over, or `forced` to be, and hold the process against claims under its epoch."""
    return db.row("process_lapsed", epoch=epoch, forced=int(forced)) is not None


@dataclass(frozen=True, slots=True)
class Claiming:
    """That a process may claim. `alone`: no other one has begun and not ended."""

    alone: bool


def crashes(db: Database, worker_id: str, *, since: datetime) -> int:
    """Return how often a worker's scheduler was lost, without what was forgiven."""
    after = max(_forgiven(db, worker_id), _forgiven(db, EVERYBODY))
    row = db.row("processes_lost_since", worker_id=worker_id, kind="serve", since=to_ms(since), after=after)
    return int(row[0]) if row else 0


def forgive_crashes(db: Database, worker_id: str = EVERYBODY) -> None:
    """Let crashes until now count no longer: somebody looked at them, and goes on."""
    row = db.row("process_last_ended")
    db.execute("meta_set", key=f"{FORGIVEN}{worker_id}", value=str(row[0] if row else 0))


def _forgiven(db: Database, worker_id: str) -> int:
    row = db.row("meta_get", key=f"{FORGIVEN}{worker_id}")
    return int(row[0]) if row is not None else 0


def prefetch_may_claim(db: Database, epoch: int) -> None:
    """Ask `may_claim` ahead."""
    db.prefetch("process_claims", epoch=epoch)


def may_claim(db: Database, epoch: int) -> Claiming | None:
    """Tell how a process may claim; None if not: it was declared lost, or its worker is being drained."""
    row = db.row("process_claims", epoch=epoch)
    return Claiming(alone=bool(row[1])) if row is not None and not row[0] else None


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
        forgive_crashes(db, worker_id)
    if changed and crashes:
        db.execute("meta_set", key=f"{CRASHES}{worker_id}", value=str(crashes))
    elif changed:
        db.execute("meta_delete", key=f"{CRASHES}{worker_id}")
    return changed


def worker_crashes(db: Database, worker_id: str) -> int:
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

    takes: PoolFilter = EVERYTHING
    slots: int | None = None


UNTOLD = Capacity()


def note_capacity(db: Database, worker_id: str, *, takes: PoolFilter, slots: int | None) -> None:
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


class CriticalSection(StrEnum):
    """What only one transaction at a time does, whichever rows it touches."""

    DECLARE = "declare"
    GROUPS = "groups"
    MAKING = "making"
    ORDER = "order"
    STATE = "state"


def wait_briefly(db: Database) -> None:
    """Wait no longer than a second for rows that others hold: DatabaseBusy then, for who tries again by itself."""
    db.defer("lock_briefly")


def lock_section(db: Database, turn: CriticalSection) -> None:
    """Wait until nobody else does this."""
    db.defer("turn_hold", key=f"turn:{turn}")


def lock_jobs_of_runs(db: Database, run_ids: Iterable[str]) -> None:
    """Hold the jobs of these runs: who waits for whom, and what comes next, is decided by one at a time for each."""
    db.defer("jobs_of_runs_hold", ids=write_json(list(run_ids)))


def hold_jobs_waited_for(db: Database, job_ids: Iterable[str]) -> None:
    """Hold those of these jobs in which somebody waits for a run, or whose failures are counted."""
    db.defer("jobs_waited_for_hold", ids=write_json(list(job_ids)))


def hold_jobs_named(db: Database, names: Iterable[str]) -> None:
    """Hold several jobs, as all do who need them, in the order of their identifiers."""
    db.defer("jobs_named_hold", names=write_json(list(names)))


def lock_worker(db: Database, worker_id: str) -> None:
    """Hold a worker while its slots are given out (INV-003)."""
    db.defer("worker_hold", worker_id=worker_id)


def hold_births(db: Database) -> None:
    """Let no run be born until the transaction ends: every birth counts in its job first."""
    db.defer("births_hold")
