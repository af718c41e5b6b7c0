"""Workers that take nothing more, and those that are forgotten."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rota.engine.leases import lose, lost_outcome, take_over
from rota.model.errors import StoreNotShared, UnknownWorker, WorkerAlive
from rota.operations.workers import SHARED_HINT, Presence, worker_states
from rota.store import processes, workers
from rota.store.driver import Database, Store
from rota.store.workers import FORGOTTEN, Worker


def drain_worker(store: Store, name: str, *, draining: bool, dry_run: bool = False) -> bool:
    """Let a worker finish what it has and take no more, or take runs again; tell whether that is new."""

    def change(db: Database) -> bool:
        worker = _named(db, name)
        return worker.draining != draining if dry_run else workers.drain(db, worker.id, draining=draining)

    return store.read(change) if dry_run else store.write(change)


class _TakenBackError(Exception):
    """Ends a transaction that was only tried; `ended` is what it would have done."""

    def __init__(self, ended: int) -> None:
        super().__init__(ended)
        self.ended = ended


def forget_worker(store: Store, state: Path, name: str, *, now: datetime, dry_run: bool = False) -> int:
    """Take a worker off the list that is gone for good; return how many of its runs ended with that."""

    def change(db: Database) -> int:
        ended = _forget(db, state=state, name=name, now=now)
        if dry_run:
            raise _TakenBackError(ended)
        return ended

    try:
        return store.write(change)
    except _TakenBackError as tried:
        return tried.ended


def _forget(db: Database, *, state: Path, name: str, now: datetime) -> int:
    worker = _named(db, name)
    if not processes.is_shared(db):
        raise StoreNotShared(f"{name!r} is the only worker of this project", hint=SHARED_HINT)
    if any(one.presence is not Presence.GONE for one in worker_states(db, state) if one.worker.id == worker.id):
        raise WorkerAlive(name)
    ended = 0
    for process in processes.open_processes(db):
        if process.worker_id == worker.id:
            left = lose(db, process.epoch, worker=name, now=now, forced=True)
            ended += left.failed if left is not None else 0
    for epoch in processes.epochs_with_runs(db, worker.id):  # of processes that left them to their keepers
        ended += take_over(db, epoch, lost_outcome(name), now=now).failed
    workers.update_worker(db, replace(worker, name=f"{worker.name}{FORGOTTEN}{worker.id}"))
    return ended


def _named(db: Database, name: str) -> Worker:
    found = workers.worker_by_name(db, name) or workers.worker_by_id(db, name)
    if found is None or found.forgotten:
        raise UnknownWorker(name)
    return found
