"""Rows of standing grants: permission for one exact tool call of one definition of a job."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rota.model.clock import to_ms
from rota.model.questions import Grant, Question
from rota.store.driver import Database
from rota.store.rows import record_or_none, records_of, write_json


def insert(
    db: Database, question: Question, *, digest: str, call_digest: str, by: str, now: datetime, until: datetime
) -> None:
    """Store the grant of the call of a question."""
    db.execute(
        "grant_insert",
        job_id=question.job_id,
        digest=digest,
        call=write_json(question.call),
        call_digest=call_digest,
        question=question.number,
        granted_by=by,
        granted_at=to_ms(now),
        expires_at=to_ms(until),
    )


def find(db: Database, job_id: str, *, digest: str, call_digest: str) -> Grant | None:
    """Return the grant of a call that is not revoked."""
    return record_or_none(Grant, db.row("grant_find", job_id=job_id, digest=digest, call_digest=call_digest))


def by_number(db: Database, number: int) -> Grant | None:
    """Return a grant, None for none."""
    return record_or_none(Grant, db.row("grant_by_number", number=number))


def newest(db: Database, *, job_id: str | None, limit: int) -> list[Grant]:
    """Return grants, newest first."""
    return records_of(Grant, db.rows("grants_newest", job_id=job_id, limit=limit))


def use(db: Database, number: int, *, now: datetime) -> bool:
    """Count a use; return False if the grant expired or was revoked."""
    return db.execute("grant_use", number=number, now=to_ms(now)) == 1


def revoke(db: Database, number: int, *, by: str, now: datetime) -> bool:
    """Revoke a grant; return False if it was revoked before."""
    return db.execute("grant_revoke", number=number, by=by, now=to_ms(now)) == 1


def call_of(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call as questions and grants store it."""
    return {"tool": tool, "input": dict(given)}
