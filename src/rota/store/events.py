"""Events: what happened to the scheduler itself. Audit only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import from_ms, to_ms
from rota.model.ids import new_id
from rota.store.driver import Database
from rota.store.rows import write_json


@dataclass(frozen=True, slots=True)
class Happening:
    """One event."""

    id: str
    at: datetime
    kind: str
    job_id: str | None
    run_id: str | None
    data: Mapping[str, Any]


def note(
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
