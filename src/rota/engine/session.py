"""One process's claim to schedule on a state folder: its locks, its epoch, and its goodbye (R-22, R-23)."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib import metadata
from pathlib import Path

from rota import faults
from rota.engine import ticks
from rota.engine.claim import Holder
from rota.engine.execute import pause_for
from rota.engine.lock import TICK_LOCK, Lock, process_lock_held, take, take_process_lock, take_serve_lock
from rota.engine.pools import forget_kept
from rota.engine.steps import catch_up_with_step, offset
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import DatabaseBusy
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.store import processes
from rota.store.driver import Database, Store

ASK_AGAIN = timedelta(milliseconds=20)
TICK_PATIENCE = timedelta(seconds=60)
"""How long who begins to serve waits for a tick that looks."""


@dataclass(frozen=True, slots=True)
class Session:
    """A process that schedules: who it is in the database, and the lock that shows it lives.

    `living`: the other processes of this worker that carried something when this one entered, ticks (R-24).
    """

    holder: Holder
    lock: Lock
    dead: list[int]
    unclean: bool = False
    living: tuple[processes.OpenProcess, ...] = ()


async def take_turn(state: Path, clock: Clock, *, within: timedelta) -> Lock | None:
    """Take the lock under which one process at a time enters, recovers, fires and claims (R-24); None: not in time."""
    deadline = clock.monotonic() + within.total_seconds()
    while (lock := take(state / TICK_LOCK)) is None and clock.monotonic() < deadline:
        await pause_for(ASK_AGAIN)
    if lock is not None:
        lock.write(str(os.getpid()))
    return lock


async def take_serving_lock(state: Path, clock: Clock) -> Lock:
    """Take the lock of a serving process in our turn: a tick that looks would fire and claim beside us (R-24)."""
    turn = await take_turn(state, clock, within=TICK_PATIENCE)
    if turn is None:
        hint = "wait for it, or look for it with `rota status`"
        raise DatabaseBusy(f"a tick has been at work on {state} for {TICK_PATIENCE.seconds} s", hint=hint)
    try:
        return take_serve_lock(state)
    finally:
        turn.release()


def open_session(store: Store, state: Path, clock: Clock, *, kind: str, identity: ProcessIdentity) -> Session:
    """Enter this process under a new epoch, and find the epochs of processes that are gone."""
    lock = take_process_lock(state)
    faults.point("session.locked")
    enter = partial(
        _enter, kind=kind, identity=identity, lock=lock.path.name, clock_offset=offset(clock), now=clock.now()
    )
    holder = store.write(enter)
    faults.point("session.entered")
    dead = store.read(partial(dead_epochs, state=state, own=holder.epoch))
    lost = store.read(partial(_lost_any, dead=dead))
    return Session(holder, lock, dead, unclean=lost, living=store.read(partial(_living, dead=dead, own=holder.epoch)))


def _enter(
    db: Database, *, kind: str, identity: ProcessIdentity, lock: str, clock_offset: timedelta, now: datetime
) -> Holder:
    worker_id = processes.ensure_worker(db, worker_id=new_id(now), name=socket.gethostname(), now=now)
    back = catch_up_with_step(db, boot_id=identity.boot_id, clock_offset=clock_offset, now=now)
    if back is not None:
        log.warning("the clock was set back while no scheduler ran", seconds=back.total_seconds())
    epoch = processes.open_process(
        db,
        worker_id=worker_id,
        kind=kind,
        identity=identity,
        lock=lock,
        version=metadata.version("rota"),
        clock_offset=clock_offset,
        now=now,
        unused=ticks.unused_epoch(db) if kind == ticks.KIND else None,
    )
    return Holder(worker_id, epoch, identity)


def dead_epochs(db: Database, *, state: Path, own: int) -> list[int]:
    """Return epochs whose process is gone: no longer locked, or ended with runs left to their keepers."""
    unended = processes.open_processes(db)
    known = {process.epoch for process in unended}
    lost = [process.epoch for process in unended if not process_lock_held(state, process.lock)]
    detached = [epoch for epoch in processes.epochs_with_runs(db) if epoch not in known]
    return sorted({*lost, *detached} - {own})


def _living(db: Database, *, dead: list[int], own: int) -> tuple[processes.OpenProcess, ...]:
    return tuple(process for process in processes.open_processes(db) if process.epoch not in {*dead, own})


def _lost_any(db: Database, *, dead: list[int]) -> bool:
    """Tell whether a process is gone that never said goodbye."""
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

    store.write(leave)
    faults.point("session.closed")
    session.lock.release(remove=True)


def _leave(db: Database, *, epoch: int, ending: processes.Ending, now: datetime) -> None:
    forget_kept(db, [epoch])
    processes.end_process(db, epoch, ending=ending, now=now)


def sweep_locks(state: Path) -> None:
    """Remove lock files that nobody holds."""
    folder = state / "locks"
    for name in os.listdir(folder) if folder.is_dir() else []:
        if not process_lock_held(state, name):
            (folder / name).unlink(missing_ok=True)
