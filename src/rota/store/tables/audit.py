"""Rows of the audit log, events, changes and acknowledgements."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from rota.model.clock import to_ms
from rota.model.ids import new_id
from rota.store.driver import Database
from rota.store.rows import record_or_none, records_of, write_json

KEY_RETENTION = timedelta(days=1)
LAST_NUMBER = 2**62


class AuditEntry(Struct, frozen=True):
    """An entry of the audit log."""

    number: int
    at: datetime
    actor: str
    face: str
    action: str
    target: str
    detail: Mapping[str, Any]


class IdempotentRequest(Struct, frozen=True):
    """A request with an idempotency key; `status` None: its answer is unknown."""

    digest: str
    status: int | None
    body: str


def note(
    db: Database, *, actor: str, face: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
) -> None:
    """Add an entry."""
    entry = {"actor": actor, "face": face, "action": action, "target": target, "detail": write_json(detail)}
    db.execute("audit_insert", at=to_ms(now), **entry)


def entries(
    db: Database, *, limit: int, before: int | None = None, since: datetime | None = None, actor: str | None = None
) -> list[AuditEntry]:
    """Return entries, newest first; `before` is the number of the last one of the previous page."""
    rows = db.rows(
        "audit_entries",
        before=LAST_NUMBER if before is None else before,
        since=0 if since is None else to_ms(since),
        actor=actor,
        limit=limit,
    )
    return records_of(AuditEntry, rows)


def find_key(db: Database, *, caller: str, key: str, now: datetime) -> IdempotentRequest | None:
    """Return the request of a key within the last day, None for none."""
    return record_or_none(
        IdempotentRequest, db.row("key_find", caller=caller, key=key, since=to_ms(now - KEY_RETENTION))
    )


def claim_key(db: Database, *, caller: str, key: str, digest: str, now: datetime) -> bool:
    """Take a key for a request whose effects are in this transaction; return whether it was free."""
    db.execute("keys_forget", before=to_ms(now - KEY_RETENTION))
    return db.execute("key_claim", caller=caller, key=key, digest=digest, at=to_ms(now)) == 1


def answer_key(db: Database, *, caller: str, key: str, digest: str, status: int, body: str, now: datetime) -> None:
    """Store the answer of a request for its repetitions."""
    db.execute("key_answer", caller=caller, key=key, digest=digest, status=status, body=body, at=to_ms(now))


class Happening(Struct, frozen=True):
    """A stored event."""

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
    return records_of(Happening, rows)


class Change(Struct, frozen=True):
    """A changed run or job, by its identifier."""

    seq: int
    kind: str
    subject: str


class Bounds(Struct, frozen=True):
    """The oldest and the newest stored change; both 0 before the first."""

    first: int
    last: int


def bounds(db: Database) -> Bounds:
    """Return the bounds of the stored changes."""
    row = db.row("change_bounds")
    assert row is not None
    return Bounds(*row)


def ended_aside(db: Database, after: int, *, last: int, limit: int) -> list[str]:
    """Return runs that ended without a slot between two changes: cancelled in the queue; then those of groups."""
    return [run_id for (run_id,) in db.rows("runs_ended_aside", after=after, last=last, limit=limit)]


def changes_after(db: Database, seq: int, *, limit: int) -> list[Change]:
    """Return the changes after a number, in order."""
    return [Change(*row) for row in db.rows("changes_after", seq=seq, limit=limit)]


class Acknowledgement(Struct, frozen=True):
    """An acknowledged topic, with its sign at that time."""

    topic: str
    sign: str
    actor: str
    at: datetime


def acknowledgements(db: Database) -> dict[str, Acknowledgement]:
    """Return the acknowledgements by topic."""
    stored = records_of(Acknowledgement, db.rows("acknowledgements_all"))
    return {acknowledgement.topic: acknowledgement for acknowledgement in stored}


def acknowledge(db: Database, topic: str, *, sign: str, actor: str, now: datetime) -> None:
    """Store the acknowledgement of a topic."""
    db.execute("acknowledgement_put", topic=topic, sign=sign, actor=actor, now=to_ms(now))


def forget(db: Database, topic: str) -> bool:
    """Delete the acknowledgement of a topic; return whether it existed."""
    return bool(db.execute("acknowledgement_drop", topic=topic))
