"""Who is alive: in one's own folder whoever holds its lock, elsewhere whoever's lease is not over (R-22)."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from rota.engine.lock import process_lock_held, read_worker
from rota.store import processes, workers
from rota.store.driver import Database
from rota.store.processes import OpenProcess


class Life:
    """Tells who is alive, as seen from one state folder at one moment of the database's clock."""

    def __init__(self, state: Path, *, own: str | None, now: datetime) -> None:
        self._state = state
        self.own = own
        self._now = now

    def holds(self, process: OpenProcess) -> bool:
        """Tell whether a process that has not said goodbye lives."""
        if process.lease_until is None or process.worker_id == self.own:
            return process_lock_held(self._state, process.lock)
        return process.lease_until >= self._now

    def living(self, found: Iterable[OpenProcess]) -> list[OpenProcess]:
        """Return those who live."""
        return [process for process in found if self.holds(process)]


def life_here(db: Database, state: Path) -> Life:
    """Return who can tell, from this folder."""
    return Life(state, own=worker_here(db, state), now=processes.server_now(db))


def worker_here(db: Database, state: Path) -> str | None:
    """Return the worker that this folder is, None where it never was one."""
    return read_worker(state) if processes.is_shared(db) else workers.only_worker(db)


def who_lives(db: Database, state: Path) -> list[OpenProcess]:
    """Return all processes that schedule on this database and live."""
    return life_here(db, state).living(processes.open_processes(db))
