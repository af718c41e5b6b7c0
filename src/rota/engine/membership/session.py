"""One process's claim to schedule on a state folder: its locks, its epoch, and its goodbye."""

import os
import socket
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.engine import activity
from rota.engine.loops.firer import ServerNow, catch_up_with_step, may_catch_up, offset
from rota.engine.loops.loop import pause_for
from rota.engine.membership import locks
from rota.engine.membership.control import own_version
from rota.engine.transactions.claim import ClaimOwner
from rota.engine.transactions.finish import release_leaked_by
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import DatabaseBusy, WorkerNameTaken
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.rules.liveness import AMONG_MACHINES, LEASE
from rota.rules.queue_order import EVERYTHING, PoolFilter, default_name
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.migrate import require_schema
from rota.store.sqlite.store import process_lock_held
from rota.store.tables import processes
from rota.store.tables.processes import Worker

DATABASE = "rota.db"
ASK_AGAIN = timedelta(milliseconds=20)
TICK_PATIENCE = timedelta(seconds=60)
"""How long a starting daemon waits for the lock of a tick."""


class Entrance(Struct, frozen=True):
    """As what a process enters: the name and labels of its worker, what it takes, and how many slots it has.

    Without a name the worker keeps the one that it has, a new one is called as its machine.
    """

    name: str | None = None
    labels: Mapping[str, str] | None = None
    takes: PoolFilter = EVERYTHING
    slots: int | None = None


UNNAMED = Entrance()


class Session(Struct, frozen=True):
    """A process that schedules: its identity in the database, and the lock that shows it lives.

    `living`: the other processes of this worker that carried something when this one entered, ticks.
    `leased`: other machines know that it lives by its lease alone.
    """

    holder: ClaimOwner
    lock: locks.Lock
    dead: list[int]
    unclean: bool = False
    living: tuple[processes.OpenProcess, ...] = ()
    leased: bool = False


def with_slots(settings: Settings, slots: int | None) -> Settings:
    """Return the settings of a process that was given its own number of slots."""
    return settings if slots is None else replace(settings, scheduler=replace(settings.scheduler, concurrency=slots))


async def take_turn(state: Path, clock: Clock, *, within: timedelta) -> locks.Lock | None:
    """Take the lock under which one process at a time enters, recovers, fires and claims; None: not in time."""
    deadline = clock.monotonic() + within.total_seconds()
    while (lock := locks.take(state / locks.TICK_LOCK)) is None and clock.monotonic() < deadline:
        await pause_for(ASK_AGAIN)
    if lock is not None:
        lock.write(str(os.getpid()))
    return lock


async def take_serving_lock(state: Path, clock: Clock) -> locks.Lock:
    """Take the lock of a serving process in our turn: a tick that looks would fire and claim beside us."""
    turn = await take_turn(state, clock, within=TICK_PATIENCE)
    if turn is None:
        hint = "wait for it, or check `rota status`"
        raise DatabaseBusy(f"a tick has been running on {state} for {TICK_PATIENCE.seconds} s", hint=hint)
    try:
        return locks.take_serve_lock(state)
    finally:
        turn.release()


def open_session(
    store: Store,
    state: Path,
    clock: Clock,
    *,
    kind: str,
    identity: ProcessIdentity,
    entrance: Entrance = UNNAMED,
    shared: bool | None = None,
    server_now: ServerNow = processes.server_now,
) -> Session:
    """Enter this process under a new epoch, and find the epochs of processes of this folder that are gone.

    `shared`: whether it is one of many; None: as the database says.
    """
    shared = store.read(processes.is_shared) if shared is None else shared
    own = _identify(state, clock.now()) if shared else None
    lock = locks.take_process_lock(state)
    faults.point("session.locked")
    enter = partial(
        _enter,
        kind=kind,
        identity=identity,
        lock=lock.path.name,
        clock_offset=offset(clock),
        now=clock.now(),
        state=state,
        entrance=entrance,
        own=own,
        server_now=server_now,
    )
    try:
        session = store.write(partial(_open, lock=lock, enter=enter, state=state))
    except BaseException:
        lock.release(remove=True)  # whether the row is there or not: the next try takes another one
        raise
    faults.point("session.entered")
    return session


def _open(db: Database, *, lock: locks.Lock, enter: Callable[[Database], ClaimOwner], state: Path) -> Session:
    """Enter, and read in the same transaction which processes were here before."""
    holder = enter(db)
    dead = dead_epochs(db, state=state, own=holder.epoch, worker_id=holder.worker_id)
    lost, living = _lost_any(db, dead=dead), _living(db, dead=dead, holder=holder)
    return Session(holder, lock, dead, unclean=lost, living=living, leased=holder.leased)


def _identify(state: Path, now: datetime) -> str:
    """Return which worker of a shared database this folder is; noted before its row is made: no folder is two."""
    known = locks.read_worker(state)
    if known is None:
        known = new_id(now)
        locks.write_worker(state, known)
    return known


def _enter(
    db: Database,
    *,
    kind: str,
    identity: ProcessIdentity,
    lock: str,
    clock_offset: timedelta,
    now: datetime,
    state: Path,
    entrance: Entrance,
    own: str | None,
    server_now: ServerNow,
) -> ClaimOwner:
    worker_id = enter_worker(db, own or processes.only_worker(db) or new_id(now), entrance, state=state, now=now)
    agrees = own is None or abs(now - server_now(db)) <= AMONG_MACHINES
    if agrees and (own is None or may_catch_up(db, worker_id=own, boot_id=identity.boot_id)):
        back = catch_up_with_step(
            db, boot_id=identity.boot_id, clock_offset=clock_offset, now=now, shared=own is not None
        )
        if back is not None:
            log.warning("clock jumped back while no scheduler was running", seconds=back.total_seconds())
    epoch = processes.open_process(
        db,
        worker_id=worker_id,
        kind=kind,
        identity=identity,
        lock=lock,
        version=own_version(),
        clock_offset=clock_offset,
        now=now,
        unused=activity.unused_epoch(db, worker_id) if kind == activity.KIND else None,
    )
    require_schema(db)  # after our row: an upgrade either sees it, or came before us
    processes.note_capacity(db, worker_id, takes=entrance.takes, slots=entrance.slots)
    if own is not None:
        processes.note_skew(db, worker_id, skew=None)
        _lease_all(db, worker_id)
    return ClaimOwner(worker_id, epoch, identity, entrance.takes, leased=own is not None)


def _lease_all(db: Database, worker_id: str) -> None:
    """Lease this process, and those of this folder that may be gone: what they left is ours to recover."""
    for process in processes.open_processes(db):
        if process.worker_id == worker_id:
            processes.renew_lease(db, process.epoch, lease=LEASE)


def enter_worker(db: Database, worker_id: str, entrance: Entrance, *, state: Path, now: datetime) -> str:
    """Store the worker of this folder, made or as it is now; return its identifier."""
    found = processes.worker_by_id(db, worker_id)
    host = socket.gethostname()
    known = found or Worker(worker_id, "")
    current = known.name if found is not None and not found.forgotten else ""
    name = _free_name(db, entrance.name, current, worker_id)
    labels = known.labels if entrance.labels is None else entrance.labels
    wanted = replace(known, name=name, labels=labels, host=host, state=str(state))
    if found is None:
        while not processes.insert_worker(db, wanted, now=now):  # another worker took the name at the same moment
            wanted = replace(wanted, name=_free_name(db, entrance.name, "", worker_id))
    elif found != wanted:
        processes.update_worker(db, wanted)
    return worker_id


def _free_name(db: Database, asked: str | None, current: str, worker_id: str) -> str:
    """Return what the worker is called: as asked, as it was, or as its machine, numbered where that is taken."""
    if asked is None and current:
        return current
    name = asked or default_name(socket.gethostname())
    worker = processes.worker_by_name(db, name)
    if worker is None or worker.id == worker_id:
        return name
    if asked is not None:
        raise WorkerNameTaken(name, host=worker.host, state=worker.state)
    number = 2
    while processes.worker_by_name(db, f"{name}-{number}") is not None:
        number += 1
    return f"{name}-{number}"


def dead_epochs(db: Database, *, state: Path, own: int, worker_id: str) -> list[int]:
    """Return epochs of a worker whose process is gone: no longer locked, or ended with runs left to their keepers."""
    unended = [process for process in processes.open_processes(db) if process.worker_id == worker_id]
    known = {process.epoch for process in unended}
    lost = [process.epoch for process in unended if not process_lock_held(state, process.lock)]
    detached = [epoch for epoch in processes.epochs_with_runs(db, worker_id) if epoch not in known]
    return sorted({*lost, *detached} - {own})


def _living(db: Database, *, dead: list[int], holder: ClaimOwner) -> tuple[processes.OpenProcess, ...]:
    open_processes = [process for process in processes.open_processes(db) if process.worker_id == holder.worker_id]
    return tuple(process for process in open_processes if process.epoch not in {*dead, holder.epoch})


def _lost_any(db: Database, *, dead: list[int]) -> bool:
    return any(process.epoch in dead for process in processes.open_processes(db))


def close_session(
    store: Store,
    session: Session,
    clock: Clock,
    *,
    ending: processes.Ending,
    last_words: Callable[[Database], None] = lambda _db: None,
) -> None:
    """Say goodbye and let the lock go; `last_words` are stored with it."""

    def leave(db: Database) -> None:
        last_words(db)
        _leave(db, epoch=session.holder.epoch, ending=ending, now=clock.now())

    try:
        store.write(leave)
        faults.point("session.closed")
    finally:
        session.lock.release(remove=True)  # a process that could not record its end is gone all the same


def _leave(db: Database, *, epoch: int, ending: processes.Ending, now: datetime) -> None:
    release_leaked_by(db, [epoch])
    processes.end_process(db, epoch, ending=ending, now=now)


def sweep_locks(state: Path) -> None:
    """Remove unused lock files."""
    folder = state / "locks"
    for name in os.listdir(folder) if folder.is_dir() else []:
        if not process_lock_held(state, name):
            (folder / name).unlink(missing_ok=True)
