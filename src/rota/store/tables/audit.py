"""Rows of the audit log, events, changes and acknowledgements."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.model.clock import from_ms, to_ms
from rota.model.ids import new_id
from rota.store.driver import Database
from rota.store.rows import write_json

KEYS_KEPT = timedelta(days=1)
LAST_NUMBER = 2**62


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit."""

    number: int
    at: datetime
    actor: str
    face: str
    action: str
    target: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
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
) -> list[AuditEntry]:
    """Return lines, newest first; `before` is the number from which to go on."""
    rows = db.rows(
        "audit_entries",
        before=LAST_NUMBER if before is None else before,
        since=0 if since is None else to_ms(since),
        actor=actor,
        limit=limit,
    )
    return [
        AuditEntry(number, from_ms(at), who, face, action, target, json.loads(detail))
        for number, at, who, face, action, target, detail in rows
    ]


def find_key(db: Database, *, caller: str, key: str, now: datetime) -> IdempotentRequest | None:
    """Return what was asked under a key within the last day, None for nothing."""
    row = db.row("key_find", caller=caller, key=key, since=to_ms(now - KEYS_KEPT))
    return None if row is None else IdempotentRequest(*row)


def claim_key(db: Database, *, caller: str, key: str, digest: str, now: datetime) -> bool:
    """Take a key for a request whose effects are in this transaction; tell whether it was free."""
    db.execute("keys_forget", before=to_ms(now - KEYS_KEPT))
    return db.execute("key_claim", caller=caller, key=key, digest=digest, at=to_ms(now)) == 1


def answer_key(db: Database, *, caller: str, key: str, digest: str, status: int, body: str, now: datetime) -> None:
    """Keep the answer of a request, so that it can be repeated."""
    db.execute("key_answer", caller=caller, key=key, digest=digest, status=status, body=body, at=to_ms(now))


@dataclass(frozen=True, slots=True)
class Happening:
    """One event."""

    id: str
    at: datetime
    kind: str
    job_id: str | None
    run_id: str | None
    data: Mapping[str, Any]


def insert_event(
    db: Database,
    kind: str,
    *,
    now: datetime,
    job_id: str | None = None,
    run_id: str | None = None,
    **data: Any,
) -> None:
    """Write an event."""
    db.execute(
        "event_insert", id=new_id(now), at=to_ms(now), kind=kind, job_id=job_id, run_id=run_id, data=write_json(data)
    )


def newest(db: Database, *, since: datetime, limit: int) -> list[Happening]:
    """Return the newest events, newest first."""
    rows = db.rows("events_newest", since=to_ms(since), limit=limit)
    return [
        Happening(id_, from_ms(at), kind, job_id, run_id, json.loads(data))
        for id_, at, kind, job_id, run_id, data in rows
    ]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that changed: a run or a job, by its identifier."""

    seq: int
    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The oldest and the newest change that is kept; both 0 before the first."""

    first: int
    last: int


def bounds(db: Database) -> Bounds:
    """Return which changes are kept."""
    row = db.row("change_bounds")
    assert row is not None
    return Bounds(*row)


def ended_aside(db: Database, after: int, *, last: int, limit: int) -> list[str]:
    """Return runs that changed in between and ended in no slot: cancelled while queued; then those of groups."""
    rows = db.rows("runs_ended_aside", after=after, last=last, limit=limit)
    return [run_id for (run_id,) in rows]


def changes_after(db: Database, seq: int, *, limit: int) -> list[Change]:
    """Return changes in order."""
    return [Change(*row) for row in db.rows("changes_after", seq=seq, limit=limit)]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A topic that somebody has seen, with the sign that it had then."""

    topic: str
    sign: str
    actor: str
    at: datetime


def acknowledgements(db: Database) -> dict[str, Acknowledgement]:
    """Return what was seen, by topic."""
    found = [
        Acknowledgement(topic, sign, actor, from_ms(at)) for topic, sign, actor, at in db.rows("acknowledgements_all")
    ]
    return {one.topic: one for one in found}


def acknowledge(db: Database, topic: str, *, sign: str, actor: str, now: datetime) -> None:
    """Note that somebody has seen a topic."""
    db.execute("acknowledgement_put", topic=topic, sign=sign, actor=actor, now=to_ms(now))


def forget(db: Database, topic: str) -> bool:
    """Forget that a topic was seen; tell whether it was."""
    return bool(db.execute("acknowledgement_drop", topic=topic))
