"""What ticks leave for each other: when they looked, and with how many slots (R-24)."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from rota.engine.life import worker_here
from rota.model.clock import from_ms, to_ms
from rota.rules.ticks import Ticks
from rota.store import processes, runs
from rota.store.driver import Database

KEY = "ticks"
KIND = "tick"
NONE: Mapping[str, int] = {}


def read_ticks(db: Database) -> Ticks:
    """Return when the last ticks looked."""
    row = db.row("meta_get", key=KEY)
    if row is None:
        return Ticks()
    found = json.loads(row[0])
    return Ticks(tuple(from_ms(look) for look in found["looks"]), found["slots"])


def note_look(db: Database, *, slots: int, now: datetime, unused: Mapping[str, int] = NONE) -> None:
    """Store that a tick looked; `unused` is its epoch, by its worker, if it did nothing under it."""
    looks = [to_ms(look) for look in read_ticks(db).looked(now, slots=slots).looks]
    epochs = {**_unused_epochs(db), **unused}
    db.execute("meta_set", key=KEY, value=json.dumps({"looks": looks, "slots": slots, "unused": epochs}))


def unused_epoch(db: Database, worker_id: str) -> int | None:
    """Return the epoch that a worker's last tick took and did not use: no row names it, the next one may have it."""
    return _unused_epochs(db).get(worker_id)


def _unused_epochs(db: Database) -> dict[str, int]:
    """Return them by worker; a note of an older rota, which knew only one worker, is given up with its row."""
    row = db.row("meta_get", key=KEY)
    found = json.loads(row[0])["unused"] if row is not None else None
    return found if isinstance(found, dict) else {}


def taken_by_all(db: Database, state: Path) -> int:
    """Return how many slots of this state folder's worker hold something, for whichever process."""
    worker_id = worker_here(db, state)
    return len(runs.taken_slots(db, worker_id)) if worker_id is not None else 0


def in_tick_mode(db: Database) -> bool:
    """Tell whether the newest process that scheduled here is a tick."""
    row = db.row("process_last", limit=1)
    return row is not None and row[1] == KIND and not _served_elsewhere(db)


def _served_elsewhere(db: Database) -> bool:
    """Tell whether a machine beside those that tick has a scheduler that stays."""
    leased = [one for one in processes.open_processes(db) if one.lease_until is not None and one.kind != KIND]
    now = processes.server_now(db) if leased else None
    return any(one.lease_until >= now for one in leased if one.lease_until is not None and now is not None)


def unseen(db: Database, *, now: datetime) -> timedelta:
    """Return how long no tick looked, nothing where a serving process is the newest (R-10)."""
    return read_ticks(db).unseen(now) if in_tick_mode(db) else timedelta()
