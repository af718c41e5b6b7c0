"""The audit: who did what, and the keys that make a repeated request harmless. Lines are added, never changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.model.clock import from_ms, to_ms
from rota.store.driver import Database
from rota.store.rows import write_json

KEYS_KEPT = timedelta(days=1)
LAST_NUMBER = 2**62


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit."""

    number: int
    at: datetime
    actor: str
    face: str
    action: str
    target: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that was made under a key; `status` None: its answer is not known."""

    digest: str
    status: int | None
    body: str


def note(
    db: Database, *, actor: str, face: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
) -> None:
    """Add a line."""
    db.execute(
        "audit_insert",
        at=to_ms(now),
        actor=actor,
        face=face,
        action=action,
        target=target,
        detail=write_json(detail),
    )


def entries(
    db: Database, *, limit: int, before: int | None = None, since: datetime | None = None, actor: str | None = None
) -> list[Entry]:
    """Return lines, newest first; `before` is the number from which to go on."""
    rows = db.rows(
        "audit_entries",
        before=LAST_NUMBER if before is None else before,
        since=0 if since is None else to_ms(since),
        actor=actor,
        limit=limit,
    )
    return [
        Entry(number, from_ms(at), who, face, action, target, json.loads(detail))
        for number, at, who, face, action, target, detail in rows
    ]


def find_key(db: Database, *, caller: str, key: str, now: datetime) -> Answered | None:
    """Return what was asked under a key within the last day, None for nothing."""
    row = db.row("key_find", caller=caller, key=key, since=to_ms(now - KEYS_KEPT))
    return None if row is None else Answered(*row)


def claim_key(db: Database, *, caller: str, key: str, digest: str, now: datetime) -> bool:
    """Take a key for a request whose effects are in this transaction; tell whether it was free."""
    db.execute("keys_forget", before=to_ms(now - KEYS_KEPT))
    return db.execute("key_claim", caller=caller, key=key, digest=digest, at=to_ms(now)) == 1


def answer_key(db: Database, *, caller: str, key: str, digest: str, status: int, body: str, now: datetime) -> None:
    """Keep the answer of a request, so that it can be repeated."""
    db.execute("key_answer", caller=caller, key=key, digest=digest, status=status, body=body, at=to_ms(now))
