"""The runs of a span of time, and the last digest of each target."""

import json
from collections.abc import Mapping
from datetime import datetime

from rota.model.clock import from_ms, to_ms
from rota.store.driver import Database
from rota.store.rows import value_of, write_json

KEY = "digests"
"""The ends of the last digests by target."""


def last_digests(db: Database) -> dict[str, datetime]:
    """Return the end of the last digest of each target."""
    stored: dict[str, int] = json.loads(value_of(db, "meta_get", key=KEY) or "{}")
    return {target: from_ms(at) for target, at in stored.items()}


def set_last_digests(db: Database, last: Mapping[str, datetime]) -> None:
    """Store the end of the last digest of each target."""
    db.execute("meta_set", key=KEY, value=write_json({target: to_ms(at) for target, at in last.items()}))


def counts(db: Database, *, since: datetime, until: datetime) -> list[tuple[str, int, int]]:
    """Return the numbers of runs that ended, by job and status."""
    rows = db.rows("digest_counts", since=to_ms(since), until=to_ms(until))
    return [(name, status, count) for name, status, count in rows]


def failed(db: Database, *, since: datetime, until: datetime, limit: int) -> list[str]:
    """Return the identifiers of the newest failed runs that were not retried."""
    rows = db.rows("digest_failed", since=to_ms(since), until=to_ms(until), limit=limit)
    return [run_id for (run_id,) in rows]


def runs_of(db: Database, job_id: str, *, since: datetime, until: datetime, limit: int) -> list[str]:
    """Return the identifiers of the newest ended runs of a job."""
    rows = db.rows("digest_runs_of", job_id=job_id, since=to_ms(since), until=to_ms(until), limit=limit)
    return [run_id for (run_id,) in rows]
