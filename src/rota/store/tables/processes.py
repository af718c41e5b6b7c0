"""Rows of processes and workers, and the locks between them."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.records import ProcessIdentity
from rota.rules.liveness import LEASE
from rota.rules.queue_order import EVERYTHING, PoolFilter, read_takes, takes_json
from rota.store.driver import Database
from rota.store.migrate import newest_schema
from rota.store.rows import columns_of, instant_of, record_or_none, records_of, value_of, write_json

Ending = Literal["clean", "detached", "lost"]


FORGIVEN, ALL_WORKERS = "forgiven:", ""
"""Meta key of the last process whose crash no longer counts, by worker and for all workers."""


class OpenProcess(Struct, frozen=True):
    """A process without a recorded end; on a shared database it is alive until `lease_until`."""

    epoch: int
    kind: str
    identity: ProcessIdentity
    lock: str
    started_at: datetime
    worker_id: str = ""
    lease_until: datetime | None = None
    version: str = ""


class Lapsed(Struct, frozen=True):
    """A process of another worker with an expired lease."""

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
    """Store a process and return its epoch: a new one, or the newest if it was never used."""
    columns = {
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
    epoch = None if unused is None else value_of(db, "process_reuse", epoch=unused, **columns)
    return int(value_of(db, "process_insert", **columns) if epoch is None else epoch)


def end_process(db: Database, epoch: int, *, ending: Ending, now: datetime) -> None:
    """Store the end of a process."""
    db.execute("process_end", epoch=epoch, ending=ending, now=to_ms(now))


def open_processes(db: Database) -> list[OpenProcess]:
    """Return the processes without a recorded end, oldest first."""
    rows = db.rows("processes_unended")
    return [
        OpenProcess(
            epoch, kind, ProcessIdentity(*identity), lock, from_ms(start), worker, from_ms_or_none(lease), version
        )
        for epoch, kind, *identity, lock, start, worker, lease, version in rows
    ]


def epochs_with_runs(db: Database, worker_id: str | None = None) -> list[int]:
    """Return the epochs with dispatched or running runs, of one worker or of all."""
    rows = db.rows("processes_with_runs")
    return [epoch for epoch, owner in rows if worker_id is None or owner == worker_id]


def is_shared(db: Database) -> bool:
    """Return whether several machines share this database, so that only leases show which processes live."""
    return bool(value_of(db, "store_shared"))


def server_now(db: Database) -> datetime:
    """Return the time of the database's clock, which decides on leases."""
    return from_ms(value_of(db, "server_clock"))


def renew_lease(db: Database, epoch: int, *, lease: timedelta) -> datetime | None:
    """Renew the lease of a process and return its end.

    None: the process was declared lost, or a newer rota upgraded the database after the lease expired.
    """
    db.announces = False  # other machines need not wake up
    return instant_of(db, "process_lease", epoch=epoch, lease=lease // MILLISECOND, schema=newest_schema())


def others_that_fire(db: Database, *, worker_id: str) -> list[OpenProcess]:
    """Return the live processes of other workers that fire jobs."""
    others = [process for process in open_processes(db) if process.worker_id != worker_id and process.kind != "worker"]
    now = server_now(db) if others else None
    return [other for other in others if now is not None and other.lease_until is not None and other.lease_until >= now]


def lapsed_processes(db: Database, *, but: str) -> list[Lapsed]:
    """Return the processes of other workers with expired leases."""
    return [Lapsed(*row) for row in db.rows("processes_lapsed", worker_id=but)]


def still_lapsed(db: Database, epoch: int, *, forced: bool = False) -> bool:
    """Return whether a lease is expired or `forced`, and lock the process against claims under its epoch."""
    return db.row("process_lapsed", epoch=epoch, forced=int(forced)) is not None


class Claiming(Struct, frozen=True):
    """The right of a process to claim. `alone`: no other process is open."""

    alone: bool


def crashes(db: Database, worker_id: str, *, since: datetime) -> int:
    """Return the number of crashes of a worker's scheduler since an instant and since the last reset."""
    after = max(_forgiven(db, worker_id), _forgiven(db, ALL_WORKERS))
    params = {"worker_id": worker_id, "kind": "serve", "since": to_ms(since), "after": after}
    return int(value_of(db, "processes_lost_since", **params) or 0)


def forgive_crashes(db: Database, worker_id: str = ALL_WORKERS) -> None:
    """Reset the crash counter of a worker, or of all."""
    db.execute("meta_set", key=f"{FORGIVEN}{worker_id}", value=str(value_of(db, "process_last_ended") or 0))


def _forgiven(db: Database, worker_id: str) -> int:
    return int(value_of(db, "meta_get", key=f"{FORGIVEN}{worker_id}") or 0)


def prefetch_may_claim(db: Database, epoch: int) -> None:
    """Prefetch `may_claim`."""
    db.prefetch("process_claims", epoch=epoch)


def may_claim(db: Database, epoch: int) -> Claiming | None:
    """Return how a process may claim; None: it was declared lost, or its worker is draining."""
    row = db.row("process_claims", epoch=epoch)
    return Claiming(alone=bool(row[1])) if row is not None and not row[0] else None


CAPACITY, CRASHES, CLOCK = "worker:", "crashes:", "clock:"
"""Prefixes of the meta keys with a worker's capacity, its crashes before a drain, and its clock error."""
FORGOTTEN = "~"
"""Separates the former name of a removed worker from its identifier; no name contains it."""


class Worker(Struct, frozen=True):
    """A worker: the folder `state` on the machine `host`. A draining worker finishes its runs and takes no new ones."""

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    state: str = ""
    draining: bool = False
    created_at: datetime | None = None

    @property
    def forgotten(self) -> bool:
        """Whether it was removed; its row stays for its runs."""
        return self.name.endswith(f"{FORGOTTEN}{self.id}")

    @property
    def called(self) -> str:
        """Its name, also after its removal."""
        return self.name.partition(FORGOTTEN)[0]


def workers(db: Database) -> list[Worker]:
    """Return all workers, removed ones included."""
    return records_of(Worker, db.rows("workers_all"))


def worker_by_id(db: Database, worker_id: str) -> Worker | None:
    """Return the worker with this identifier, None for none."""
    return record_or_none(Worker, db.row("worker_by_id", id=worker_id))


def worker_by_name(db: Database, name: str) -> Worker | None:
    """Return the worker of this name, None for none."""
    return record_or_none(Worker, db.row("worker_by_name", name=name))


def only_worker(db: Database) -> str | None:
    """Return the worker of a database with a single state folder, None if it has none yet."""
    worker_id: str | None = value_of(db, "worker_first")
    return worker_id


def last_seen(db: Database, worker_id: str) -> datetime | None:
    """Return the last sign of life of a worker; None if it never had a process."""
    return instant_of(db, "worker_seen", worker_id=worker_id, lease=LEASE // MILLISECOND)


def insert_worker(db: Database, worker: Worker, *, now: datetime) -> bool:
    """Store a new worker; return whether its name was free."""
    return db.execute("worker_insert", now=to_ms(now), **columns_of(worker)) == 1


def update_worker(db: Database, worker: Worker) -> None:
    """Store the name, labels and place of a worker."""
    db.execute("worker_update", **columns_of(worker))


def drain(db: Database, worker_id: str, *, draining: bool, crashes: int = 0) -> bool:
    """Start or end the draining of a worker, maybe after `crashes`; return whether that is a change."""
    changed = db.execute("worker_drain", id=worker_id, draining=int(draining)) == 1
    if not draining:
        forgive_crashes(db, worker_id)
    if changed and crashes:
        db.execute("meta_set", key=f"{CRASHES}{worker_id}", value=str(crashes))
    elif changed:
        db.execute("meta_delete", key=f"{CRASHES}{worker_id}")
    return changed


def worker_crashes(db: Database, worker_id: str) -> int:
    """Return the number of crashes that drained a worker, 0 if a person did."""
    return int(value_of(db, "meta_get", key=f"{CRASHES}{worker_id}") or 0)


def note_skew(db: Database, worker_id: str, *, skew: timedelta | None) -> None:
    """Store how far the clock of a worker is ahead of the server's (negative: behind), None for none."""
    if skew is None:
        db.execute("meta_delete", key=f"{CLOCK}{worker_id}")
    else:
        db.execute("meta_set", key=f"{CLOCK}{worker_id}", value=str(skew // MILLISECOND))


def skew(db: Database, worker_id: str) -> timedelta | None:
    """Return the clock error of a worker, None for none."""
    stored = value_of(db, "meta_get", key=f"{CLOCK}{worker_id}")
    return None if stored is None else int(stored) * MILLISECOND


class Capacity(Struct, frozen=True):
    """The capacity of a worker at its last start: the runs that it takes, and its slots."""

    takes: PoolFilter = EVERYTHING
    slots: int | None = None


def note_capacity(db: Database, worker_id: str, *, takes: PoolFilter, slots: int | None) -> None:
    """Store the capacity of a worker if it changed."""
    if capacity(db, worker_id) != Capacity(takes, slots):
        value = write_json({**takes_json(takes), "slots": slots})
        db.execute("meta_set", key=f"{CAPACITY}{worker_id}", value=value)


def capacity(db: Database, worker_id: str) -> Capacity:
    """Return the capacity of a worker."""
    stored = value_of(db, "meta_get", key=f"{CAPACITY}{worker_id}")
    if stored is None:
        return Capacity()
    values = json.loads(stored)
    return Capacity(read_takes(values), values["slots"])


class CriticalSection(StrEnum):
    """A section that only one transaction at a time executes, whichever rows it touches."""

    DECLARE = "declare"
    GROUPS = "groups"
    MAKING = "making"
    ORDER = "order"
    STATE = "state"


def wait_briefly(db: Database) -> None:
    """Wait at most a second for locked rows, then raise DatabaseBusy: for callers that retry."""
    db.defer("lock_briefly")


def lock_section(db: Database, section: CriticalSection) -> None:
    """Lock a critical section until the transaction ends."""
    db.defer("turn_hold", key=f"turn:{section}")


def lock_jobs_of_runs(db: Database, run_ids: Iterable[str]) -> None:
    """Lock the jobs of these runs: one transaction at a time decides on waits and follow-ups of a job."""
    db.defer("jobs_of_runs_hold", ids=write_json(list(run_ids)))


def hold_jobs_waited_for(db: Database, job_ids: Iterable[str]) -> None:
    """Lock those of these jobs with waiting runs or counted failures."""
    db.defer("jobs_waited_for_hold", ids=write_json(list(job_ids)))


def hold_jobs_named(db: Database, names: Iterable[str]) -> None:
    """Lock several jobs in the order of their identifiers, as every transaction does."""
    db.defer("jobs_named_hold", names=write_json(list(names)))


def lock_worker(db: Database, worker_id: str) -> None:
    """Lock a worker while its slots are assigned."""
    db.defer("worker_hold", worker_id=worker_id)


def hold_births(db: Database) -> None:
    """Block the insertion of runs until the transaction ends: an insertion first updates its job."""
    db.defer("births_hold")
