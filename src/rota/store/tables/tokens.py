"""Rows of named tokens; a token itself is never stored, only its hash."""

from datetime import datetime, timedelta

from msgspec import Struct

from rota.model.clock import to_ms
from rota.store.driver import Database
from rota.store.rows import record_or_none, records_of

USE_INTERVAL = timedelta(minutes=1)
"""The last use of a token is written at most once in this time."""


class AccessToken(Struct, frozen=True):
    """A named token; `expires_at` None: it does not expire."""

    number: int
    name: str
    scope: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


def insert(
    db: Database, *, name: str, scope: str, digest: str, by: str, now: datetime, expires_at: datetime | None
) -> None:
    """Store a token by the hash of its text."""
    until = None if expires_at is None else to_ms(expires_at)
    db.execute(
        "token_insert", name=name, scope=scope, hash=digest, created_by=by, created_at=to_ms(now), expires_at=until
    )


def by_hash(db: Database, digest: str) -> AccessToken | None:
    """Return the token with this hash, None for none."""
    return record_or_none(AccessToken, db.row("token_by_hash", hash=digest))


def by_number(db: Database, number: int) -> AccessToken | None:
    """Return a token, None for none."""
    return record_or_none(AccessToken, db.row("token_by_number", number=number))


def by_name(db: Database, name: str) -> AccessToken | None:
    """Return the token of a name that is not revoked, None for none."""
    return record_or_none(AccessToken, db.row("token_by_name", name=name))


def newest(db: Database, *, limit: int) -> list[AccessToken]:
    """Return tokens, newest first."""
    return records_of(AccessToken, db.rows("tokens_newest", limit=limit))


def use(db: Database, number: int, *, now: datetime) -> None:
    """Record a use, unless one was recorded within the last minute."""
    db.execute("token_use", number=number, now=to_ms(now), before=to_ms(now - USE_INTERVAL))


def revoke(db: Database, number: int, *, by: str, now: datetime) -> bool:
    """Revoke a token; return False if it was revoked before."""
    return db.execute("token_revoke", number=number, by=by, now=to_ms(now)) == 1
