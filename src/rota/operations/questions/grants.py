"""Standing grants as lists, and their revocation."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypedDict

from msgspec import Struct

from rota.model.errors import UnknownGrant
from rota.model.questions import Grant
from rota.model.serialize import to_shape
from rota.operations.jobs import find_job
from rota.store.driver import Database, Store
from rota.store.tables import audit, grants, jobs

LISTED = 200


class GrantView(Struct, frozen=True):
    """A grant and its state: valid, void, expired or revoked."""

    grant: Grant
    state: str


class GrantJson(TypedDict):
    """A standing grant: permission for one exact tool call of one definition of a job."""

    grant: int
    state: str
    job: str
    call: dict[str, Any]
    definition: str
    question: int
    granted_by: str
    granted_at: str
    expires_at: str
    uses: int
    last_used_at: str | None
    revoked_at: str | None
    revoked_by: str | None


def grant_json(view: GrantView) -> GrantJson:
    """Return a grant as JSON."""
    grant = view.grant
    return to_shape(GrantJson, grant, grant=grant.number, state=view.state, definition=grant.digest)


def list_grants(store: Store, *, now: datetime, job: str | None = None, limit: int = LISTED) -> Sequence[GrantView]:
    """Return the grants, newest first."""

    def read(db: Database) -> Sequence[GrantView]:
        job_id = None if job is None else find_job(db, job).id
        return [_view(db, grant, now) for grant in grants.newest(db, job_id=job_id, limit=limit)]

    return store.read(read)


def _view(db: Database, grant: Grant, now: datetime) -> GrantView:
    if grant.revoked_at is not None:
        return GrantView(grant, "revoked")
    if grant.expires_at <= now:
        return GrantView(grant, "expired")
    job = jobs.job_by_id(db, grant.job_id)
    changed = job.retired_at is not None or jobs.lasting_digest(job.spec) != grant.digest
    return GrantView(grant, "void" if changed else "valid")


def show_grant(store: Store, number: int, *, now: datetime) -> GrantView:
    """Return a grant; raise UnknownGrant."""
    return store.read(lambda db: _view(db, _find(db, number), now))


def _find(db: Database, number: int) -> Grant:
    grant = grants.by_number(db, number)
    if grant is None:
        raise UnknownGrant(number)
    return grant


def revoke_grant(store: Store, number: int, *, by: str, now: datetime) -> GrantView:
    """Revoke a grant; a revoked one stays as it is."""
    return store.write(partial(_revoke, number=number, by=by, now=now))


def _revoke(db: Database, *, number: int, by: str, now: datetime) -> GrantView:
    grant = _find(db, number)
    if grants.revoke(db, number, by=by, now=now):
        audit.insert_event(db, "grant_revoked", now=now, job_id=grant.job_id, number=number, by=by)
    return _view(db, _find(db, number), now)
