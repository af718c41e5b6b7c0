"""The audit log and idempotency keys."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct, field

from rota.model.clock import Clock
from rota.model.serialize import to_shape
from rota.store.driver import PLAIN, Database, Operation, Store, T, WriteOptions
from rota.store.tables import audit
from rota.store.tables.audit import IdempotentRequest

if TYPE_CHECKING:
    import asyncio

Also = Callable[[Database], None]


class AuditedAct(Struct, frozen=True):
    """An audited request: actor, interface, action and target. The server sets them, never the caller."""

    actor: str
    face: str
    action: str
    target: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


def person() -> str:
    """Return the name of the user of this process."""
    import getpass

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name, as in containers
        return f"user:{os.getuid()}"


class AuditedStore:
    """A store that adds an audit entry to its first change; reads add nothing."""

    def __init__(
        self, store: Store, deed: AuditedAct | Callable[[], AuditedAct], clock: Clock, *, also: Also | None = None
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
        """Run `operation` in a transaction; the first one also writes the audit entry."""
        if self._noted:
            return self._store.write(operation)
        result = self._store.write(partial(self._with_note, operation))
        self._noted = True
        return result

    def submit(self, operation: Operation[T], manner: WriteOptions = PLAIN) -> "asyncio.Future[T]":
        """Hand `operation` to the writer thread, noted as `write` does."""
        if self._noted:
            return self._store.submit(operation, manner)
        self._noted = True
        return self._store.submit(partial(self._with_note, operation), manner)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _with_note(self, operation: Operation[T], db: Database) -> T:
        result = operation(db)
        deed = self._deed if isinstance(self._deed, AuditedAct) else self._deed()
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
) -> list[audit.AuditEntry]:
    """Return the audit entries, newest first."""
    return store.read(partial(audit.entries, limit=limit, before=before, since=since, actor=actor))


class EntryJson(TypedDict):
    """A line of the audit: an action and its actor."""

    number: int
    at: str
    actor: str
    face: str
    action: str
    target: str
    detail: dict[str, Any]


def entry_json(entry: audit.AuditEntry) -> EntryJson:
    """Return a line of the audit as JSON."""
    return to_shape(EntryJson, entry)


class IdempotencyKey:
    """One key of one caller, and the request that it stands for."""

    def __init__(self, store: Store, clock: Clock, *, caller: str, key: str, digest: str) -> None:
        self._store = store
        self._clock = clock
        self._caller = caller
        self._key = key
        self.digest = digest

    def find(self) -> IdempotentRequest | None:
        """Return the record of the first request with this key, or None."""
        now = self._clock.now()
        return self._store.read(lambda db: audit.find_key(db, caller=self._caller, key=self._key, now=now))

    def claim(self, db: Database) -> bool:
        """Store the key in the transaction of the effects; return whether it was free."""
        return audit.claim_key(db, caller=self._caller, key=self._key, digest=self.digest, now=self._clock.now())

    def answer(self, status: int, body: str) -> None:
        """Keep the answer, so that it can be repeated."""

        def keep(db: Database) -> None:
            audit.answer_key(
                db,
                caller=self._caller,
                key=self._key,
                digest=self.digest,
                status=status,
                body=body,
                now=self._clock.now(),
            )

        self._store.write(keep)
