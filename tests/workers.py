"""The worker of a database that one folder has to itself."""

from datetime import datetime

from rota.model.ids import new_id
from rota.store.driver import Database
from rota.store.tables import processes
from rota.store.tables.processes import Worker


def ensure_worker(db: Database, *, name: str, now: datetime) -> str:
    """Return the worker of a database, made at the first call."""
    found = processes.only_worker(db)
    if found is not None:
        return found
    worker = Worker(new_id(now), name)
    processes.insert_worker(db, worker, now=now)
    return worker.id
