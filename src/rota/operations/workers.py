"""Workers and processes on other machines."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.engine.membership.locks import Life, life_here
from rota.model.clock import from_ms, to_ms
from rota.model.errors import InvalidValue, UnknownWorker
from rota.model.ids import new_id
from rota.model.serialize import fields_json, iso_or_none
from rota.model.spec import Draw
from rota.rules.queue_order import NAME, PoolFilter, takes_json
from rota.store.driver import Database, Store
from rota.store.tables import processes, runs
from rota.store.tables.processes import Worker

WHO_CLAIMS = ("serve", "worker", "guest")
LABELS = 50
SHARED_HINT = "set `store: postgresql://…` or ROTA_STORE to share one database, or run the jobs here with `rota serve`"


class Presence(StrEnum):
    """The presence of a worker."""

    ALIVE = "alive"
    DRAINING = "draining"
    GONE = "gone"


class WorkerState(Struct, frozen=True):
    """The current state of a worker: its live processes, its pool filter, and its slots."""

    worker: Worker
    kinds: tuple[str, ...]
    takes: PoolFilter
    slots: int | None
    taken: int
    since: datetime | None = None
    """The start of its oldest live process."""
    lease_until: datetime | None = None
    seen_at: datetime | None = None
    """The last sign of life of a worker that is gone."""
    here: bool = False
    crashes: int = 0
    """The number of crashes after which it was drained automatically."""
    skew: timedelta | None = None
    """The offset of its clock from the server's, if it is too large to take part; negative: behind."""

    @property
    def presence(self) -> Presence:
        """Its presence."""
        if not self.kinds:
            return Presence.GONE
        return Presence.DRAINING if self.worker.draining else Presence.ALIVE

    @property
    def claims(self) -> bool:
        """Whether it claims runs now."""
        there = self.presence is Presence.ALIVE and self.skew is None
        return there and any(kind in WHO_CLAIMS for kind in self.kinds)


def worker_states(db: Database, state: Path | None) -> tuple[WorkerState, ...]:
    """Return all workers by name, as seen from a state folder, if any."""
    life = life_here(db, state or Path("/"))
    living = life.living(processes.open_processes(db))
    workers = [worker for worker in processes.workers(db) if not worker.forgotten]
    return tuple(_state(db, worker, living, life) for worker in sorted(workers, key=lambda worker: worker.name))


def _state(db: Database, worker: Worker, living: Sequence[processes.OpenProcess], life: Life) -> WorkerState:
    own = [process for process in living if process.worker_id == worker.id]
    capacity = processes.capacity(db, worker.id)
    leases = [process.lease_until for process in own if process.lease_until is not None]
    return WorkerState(
        worker,
        tuple(sorted({process.kind for process in own})),
        capacity.takes,
        capacity.slots,
        len(runs.taken_slots(db, worker.id)),
        min((process.started_at for process in own), default=None),
        max(leases, default=None),
        None if own else processes.last_seen(db, worker.id),
        here=worker.id == life.own,
        crashes=processes.worker_crashes(db, worker.id) if worker.draining else 0,
        skew=processes.skew(db, worker.id) if own else None,
    )


def anybody_takes(found: Sequence[WorkerState], draws: Sequence[Draw]) -> bool:
    """Return whether a live worker accepts a run with these draws."""
    return any(worker.claims and worker.takes.fits(draws) for worker in found)


def slots_of_all(found: Sequence[WorkerState]) -> tuple[int, int]:
    """Return the numbers of slots and of taken slots of the live workers."""
    there = [worker for worker in found if worker.claims]
    return sum(worker.slots or 0 for worker in there), sum(worker.taken for worker in there)


def all_drained(found: Sequence[WorkerState]) -> list[str]:
    """Return the names of the live workers, if all of them are drained."""
    there = [worker for worker in found if any(kind in WHO_CLAIMS for kind in worker.kinds)]
    drained = [worker.worker.called for worker in there if worker.worker.draining]
    return drained if len(drained) == len(there) else []


def read_labels(written: Sequence[str]) -> dict[str, str]:
    """Return labels from `key=value` words.

    >>> read_labels(["zone=b", "gpu=a100"])
    {'zone': 'b', 'gpu': 'a100'}
    """
    if len(written) > LABELS:
        raise InvalidValue(f"{len(written)} labels are too many", hint=f"a worker has at most {LABELS}")
    found = {}
    for word in written:
        key, equals, value = word.partition("=")
        if not equals or not NAME.fullmatch(key) or len(value) > 200:
            raise InvalidValue(f"{word!r} is not a label", hint="write --label key=value")
        found[key] = value
    return found


def check_name(name: str) -> str:
    """Return a name that a worker may have."""
    if not NAME.fullmatch(name):
        raise InvalidValue(f"{name!r} cannot be a worker's name", hint="use 1 to 100 letters, digits and . _ -")
    return name


def worker_json(one: WorkerState, *, counts: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a worker as JSON."""
    told = {} if counts is None else {"counts": dict(counts)}
    return {
        "id": one.worker.id,
        "name": one.worker.called,
        "remote": False,
        "registered": one.presence is not Presence.GONE,
        "state": one.presence.value,
        "here": one.here,
        "host": one.worker.host,
        "folder": one.worker.state,
        "labels": dict(one.worker.labels),
        "kinds": list(one.kinds),
        **takes_json(one.takes),
        "slots": one.slots,
        "slots_taken": one.taken,
        "started_at": iso_or_none(one.since),
        "lease_until": iso_or_none(one.lease_until),
        "clock_skew_seconds": None if one.skew is None else one.skew.total_seconds(),
        "last_seen_at": iso_or_none(one.seen_at),
        **told,
    }


LOST_AFTER = timedelta(minutes=10)
LONGEST = timedelta(days=1)
MOST = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class RemoteWorker(Struct, frozen=True):
    """A remote scheduler; it counts as registered until `lost_after` has passed since its last sign of life."""

    id: str
    name: str
    registered_at: datetime
    seen_at: datetime
    lost_after: timedelta

    def registered(self, now: datetime) -> bool:
        """Return whether it is registered."""
        return now < self.seen_at + self.lost_after


def register(store: Store, name: str, *, lost_after: timedelta = LOST_AFTER, now: datetime) -> RemoteWorker:
    """Register a worker, or renew its registration."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"{name!r} cannot be a worker's name", hint="use 1 to 100 letters, digits and . _ -")
    if not timedelta(seconds=1) <= lost_after <= LONGEST:
        raise InvalidValue(f"{lost_after.total_seconds():g} s is not a valid time", hint="use 1 s to 1 day")
    return store.write(partial(_register, name=name, lost_after=lost_after, now=now))


def _register(db: Database, *, name: str, lost_after: timedelta, now: datetime) -> RemoteWorker:
    known = {worker.name for worker in remote_workers(db)}
    if name not in known and len(known) >= MOST:
        raise InvalidValue(f"{MOST} workers are registered already", hint="remove those that are gone")
    seconds = int(lost_after.total_seconds())
    db.execute("remote_worker_seen", name=name, id=new_id(now), now=to_ms(now), lost_after=seconds)
    return next(worker for worker in remote_workers(db) if worker.name == name)


def forget(store: Store, name: str) -> None:
    """Remove a worker."""

    def remove(db: Database) -> None:
        if not db.execute("remote_worker_forget", name=name):
            raise UnknownWorker(name)

    store.write(remove)


def remote_workers(db: Database) -> list[RemoteWorker]:
    """Return the registered and lost workers that were not removed, by name."""
    return [
        RemoteWorker(id_, name, from_ms(registered), from_ms(seen), timedelta(seconds=lost))
        for name, id_, registered, seen, lost in db.rows("remote_workers")
    ]


def remote_json(one: RemoteWorker, *, now: datetime) -> dict[str, Any]:
    """Return a remote worker as JSON."""
    return {
        **fields_json(one, "id", "name"),
        "remote": True,
        "registered": one.registered(now),
        **fields_json(one, "registered_at", "seen_at"),
        "lost_after_seconds": int(one.lost_after.total_seconds()),
    }
