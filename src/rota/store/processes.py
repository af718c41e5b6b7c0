"""The processes that schedule for workers, each under an epoch of its own; leases on a shared database (R-22, R-23)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.records import ProcessIdentity
from rota.store.driver import Database
from rota.store.schema import newest_schema

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


def ask_may_claim(db: Database, epoch: int) -> None:
    """Ask `may_claim` ahead."""
    db.ahead("process_claims", epoch=epoch)


def may_claim(db: Database, epoch: int) -> Claiming | None:
    """Tell how a process may claim; None if not: it was declared lost, or its worker is being drained."""
    row = db.row("process_claims", epoch=epoch)
    return Claiming(alone=bool(row[1])) if row is not None and not row[0] else None
