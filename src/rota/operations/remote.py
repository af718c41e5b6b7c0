"""Schedulers elsewhere that read this one (document 001): they say that they are there."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rota.model.clock import from_ms, iso, to_ms
from rota.model.errors import InvalidValue, UnknownWorker
from rota.model.ids import new_id
from rota.store.driver import Database, Store

LOST_AFTER = timedelta(minutes=10)
LONGEST = timedelta(days=1)
MOST = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RemoteWorker:
    """A scheduler elsewhere; it is registered until it has not been heard of for `lost_after`."""

    id: str
    name: str
    registered_at: datetime
    seen_at: datetime
    lost_after: timedelta

    def registered(self, now: datetime) -> bool:
        """Tell whether it is there."""
        return now < self.seen_at + self.lost_after


def register(store: Store, name: str, *, lost_after: timedelta = LOST_AFTER, now: datetime) -> RemoteWorker:
    """Register a worker, or note that it is still there."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"{name!r} cannot be a worker's name", hint="use 1 to 100 letters, digits and . _ -")
    if not timedelta(seconds=1) <= lost_after <= LONGEST:
        raise InvalidValue(f"{lost_after.total_seconds():g} s is no time to be lost after", hint="use 1 s to 1 day")
    return store.write(partial(_register, name=name, lost_after=lost_after, now=now))


def _register(db: Database, *, name: str, lost_after: timedelta, now: datetime) -> RemoteWorker:
    known = {one.name for one in remote_workers(db)}
    if name not in known and len(known) >= MOST:
        raise InvalidValue(f"{MOST} workers are registered already", hint="remove those that are gone")
    seconds = int(lost_after.total_seconds())
    db.execute("remote_worker_seen", name=name, id=new_id(now), now=to_ms(now), lost_after=seconds)
    return next(one for one in remote_workers(db) if one.name == name)


def forget(store: Store, name: str) -> None:
    """Take a worker off the list."""

    def remove(db: Database) -> None:
        if not db.execute("remote_worker_forget", name=name):
            raise UnknownWorker(name)

    store.write(remove)


def remote_workers(db: Database) -> list[RemoteWorker]:
    """Return the workers that ever registered and were not taken off the list, by name."""
    return [
        RemoteWorker(id_, name, from_ms(registered), from_ms(seen), timedelta(seconds=lost))
        for name, id_, registered, seen, lost in db.rows("remote_workers")
    ]


def remote_json(one: RemoteWorker, *, now: datetime) -> dict[str, Any]:
    """Return a worker elsewhere as JSON."""
    return {
        "id": one.id,
        "name": one.name,
        "remote": True,
        "registered": one.registered(now),
        "registered_at": iso(one.registered_at),
        "seen_at": iso(one.seen_at),
        "lost_after_seconds": int(one.lost_after.total_seconds()),
    }
