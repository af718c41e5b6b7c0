"""Locks that show that a process is alive."""

import fcntl
import os
import uuid
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from rota.model.errors import AlreadyServing, StateError
from rota.store.driver import Database
from rota.store.sqlite.store import LOCKS, is_held, process_lock_held, reachable
from rota.store.tables import processes
from rota.store.tables.processes import OpenProcess

SERVE_LOCK = "serve.lock"
TICK_LOCK = "tick.lock"
WORKER = "worker"
"""The file that says which worker of a shared database a state folder is."""


class Lock:
    """An exclusive lock on a file, kept until the process ends or lets go."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def write(self, text: str) -> None:
        """Write a note for processes that find the lock taken."""
        with reachable(self.path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)

    def release(self, *, remove: bool = False) -> None:
        """Release; remove the file if no other process uses its name."""
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def take(path: Path) -> Lock | None:
    """Take the lock of this file, None if another process holds it."""
    with reachable(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return Lock(path, descriptor)


def take_serve_lock(state: Path) -> Lock:
    """Take the lock that only one serving process may hold; AlreadyServing names the one that does."""
    path = state / SERVE_LOCK
    lock = take(path)
    if lock is None:
        raise AlreadyServing(serving_pid(state), str(state))
    lock.write(str(os.getpid()))
    return lock


def serving_pid(state: Path) -> int | None:
    """Return the pid of the process that serves, None if none does."""
    return holder_pid(state / SERVE_LOCK)


def holder_pid(path: Path) -> int | None:
    """Return the pid that the holder of a lock noted in it, None if it is free."""
    if not is_held(path):
        return None
    text = path.read_text("ascii", errors="replace").strip()
    return int(text) if text.isdigit() else None


def take_process_lock(state: Path) -> Lock:
    """Take a new lock under a name of its own, for one process row."""
    folder = state / LOCKS
    with reachable(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    lock = take(folder / uuid.uuid4().hex)
    if lock is None:
        raise StateError(f"cannot lock a new file in {folder}", hint="keep the state on a local disk")
    return lock


def living_processes(state: Path) -> list[str]:
    """Return the locks of the processes that schedule here and live."""
    folder = state / LOCKS
    return [name for name in os.listdir(folder) if process_lock_held(state, name)] if folder.is_dir() else []


def read_worker(state: Path) -> str | None:
    """Return which worker of a shared database this folder is, None where it is none yet."""
    try:
        text = (state / WORKER).read_text("ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    return text or None


def write_worker(state: Path, worker_id: str) -> None:
    """Note which worker this folder is, whole or not at all."""
    draft = state / f"{WORKER}.new"
    with reachable(state):
        draft.write_text(f"{worker_id}\n", "ascii")
        draft.replace(state / WORKER)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return which file a name leads to, None for none: another one in its place is not the one that was opened."""
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (stat.st_dev, stat.st_ino)


class Life:
    """Returns which processes live, as seen from one state folder at one moment of the database's clock."""

    def __init__(self, state: Path, *, own: str | None, now: datetime) -> None:
        self._state = state
        self.own = own
        self._now = now

    def holds(self, process: OpenProcess) -> bool:
        """Return whether a process that has not said goodbye lives."""
        if process.lease_until is None or process.worker_id == self.own:
            return process_lock_held(self._state, process.lock)
        return process.lease_until >= self._now

    def living(self, found: Iterable[OpenProcess]) -> list[OpenProcess]:
        """Return the processes that live."""
        return [process for process in found if self.holds(process)]


def life_here(db: Database, state: Path) -> Life:
    """Return the view from this folder."""
    return Life(state, own=worker_here(db, state), now=processes.server_now(db))


def worker_here(db: Database, state: Path) -> str | None:
    """Return the worker that this folder is, None where it never was one."""
    return read_worker(state) if processes.is_shared(db) else processes.only_worker(db)


def live_processes(db: Database, state: Path) -> list[OpenProcess]:
    """Return all processes that schedule on this database and live."""
    return life_here(db, state).living(processes.open_processes(db))
