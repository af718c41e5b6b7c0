"""The newest poll, and the runs that wait for the next (R-16)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.store.driver import Database
from rota.store.rows import write_json

POLL = "rota/poll"
"""The built-in job that polls; no other job may have a name that begins with `rota/`."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The newest poll: whether it went well and what it said; `data` is that of the newest one that went well."""

    run_id: str
    at: datetime
    ok: bool
    detail: str
    good_at: datetime | None
    data: Mapping[str, Any] | None


def ask_poll_job(db: Database) -> None:
    """Ask `poll_job_id` ahead."""
    db.ahead("job_id_of", name=POLL)


def poll_job_id(db: Database) -> str | None:
    """Return the identifier of the job that polls, None where there is none."""
    row = db.row("job_id_of", name=POLL)
    return row[0] if row else None


def last_poll(db: Database) -> Polled | None:
    """Return the newest poll, None where there was none."""
    row = db.row("poll_last")
    if row is None:
        return None
    data = None if row[5] is None else json.loads(row[5])
    return Polled(row[0], from_ms(row[1]), bool(row[2]), row[3], from_ms_or_none(row[4]), data)


def store_poll(db: Database, *, run_id: str, at: datetime, detail: str, data: Mapping[str, Any] | None) -> None:
    """Store how a poll went; `data` None: it failed."""
    ok = data is not None
    db.execute(
        "poll_store",
        run_id=run_id,
        at=to_ms(at),
        ok=int(ok),
        detail=detail,
        good_at=to_ms_or_none(at if ok else None),
        data=write_json(data) if ok else None,
    )


def waiting(db: Database) -> list[str]:
    """Return the queued runs that wait for a poll."""
    return [run_id for (run_id,) in db.rows("runs_polling")]


def let_go(db: Database) -> int:
    """Make the runs that wait for a poll claimable; return how many."""
    return db.execute("runs_polled")


def suggest(db: Database, job_id: str, interval: timedelta | None) -> None:
    """Store the interval that the server asked for; None: it asked for none."""
    db.execute("job_suggest", id=job_id, suggested=None if interval is None else interval // MILLISECOND)
