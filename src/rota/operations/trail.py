"""Who did what: each change that somebody asks for leaves a line in the audit, in the transaction of the change."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from rota.model.clock import Clock, iso
from rota.store import audit
from rota.store.driver import PLAIN, Database, Manner, Operation, Store, T

Also = Callable[[Database], None]


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody asks for: who, through which face, what, and of what. The server says so, never the caller."""

    actor: str
    face: str
    action: str
    target: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


def person() -> str:
    """Return who types a command, as the system names the user of this process."""
    import getpass

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name, as in containers
        return f"user:{os.getuid()}"


class Trailed:
    """A store whose first change is noted, with whatever else is to be stored with it; who reads costs nothing."""

    def __init__(
        self, store: Store, deed: Deed | Callable[[], Deed], clock: Clock, *, also: Also | None = None
    ) -> None:
        self._store = store
        self._deed = deed
        self._clock = clock
        self._also = also
        self._noted = False

    def read(self, operation: Operation[T]) -> T:
        """Run `operation` on one consistent snapshot."""
        return self._store.read(operation)

    def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction; the first one also notes who asked for it."""
        if self._noted:
            return self._store.write(operation)
        result = self._store.write(partial(self._with_note, operation))
        self._noted = True
        return result

    def submit(self, operation: Operation[T], manner: Manner = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread, noted as `write` does."""
        if self._noted:
            return self._store.submit(operation, manner)
        self._noted = True
        return self._store.submit(partial(self._with_note, operation), manner)

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()

    def _with_note(self, operation: Operation[T], db: Database) -> T:
        result = operation(db)
        deed = self._deed if isinstance(self._deed, Deed) else self._deed()
        audit.note(
            db,
            actor=deed.actor,
            face=deed.face,
            action=deed.action,
            target=deed.target,
            detail=deed.detail,
            now=self._clock.now(),
        )
        if self._also is not None:
            self._also(db)
        return result


def read_trail(
    store: Store, *, limit: int, before: int | None = None, since: datetime | None = None, actor: str | None = None
) -> list[audit.Entry]:
    """Return what was done, newest first."""
    return store.read(partial(audit.entries, limit=limit, before=before, since=since, actor=actor))


def entry_json(entry: audit.Entry) -> dict[str, Any]:
    """Return a line of the audit as JSON."""
    return {
        "number": entry.number,
        "at": iso(entry.at),
        "actor": entry.actor,
        "face": entry.face,
        "action": entry.action,
        "target": entry.target,
        "detail": dict(entry.detail),
    }
