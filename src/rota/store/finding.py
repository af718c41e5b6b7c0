"""Runs found by what they are: by filter, by the instants of a range, and how long they took."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Unpack

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.states import Status, WaitingFor
from rota.store.driver import Database
from rota.store.rows import write_json
from rota.store.runs import Chosen, parameters


@dataclass(frozen=True, slots=True)
class Matching:
    """An unfinished run that a filter names."""

    id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Said:
    """What a run says about itself, and which it is."""

    id: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Wish:
    """Which unfinished runs of a job are meant: made at `before` or earlier, of these statuses, waiting for this."""

    before: datetime
    statuses: tuple[Status, ...]
    waiting_for: WaitingFor | None = None


def said(db: Database, *, limit: int, **chosen: Unpack[Chosen]) -> list[Said]:
    """Return the errors and summaries of runs, newest first: whole runs cost several times as much to read."""
    given = parameters(chosen) | {"limit": limit}
    rows = db.rows("runs_said_of_job", **given) if "job_id" in given else db.rows("runs_said", **given)
    return [Said(run_id, number, f"{error or ''}\n{summary or ''}") for run_id, number, error, summary in rows]


def matching(db: Database, job_id: str, wish: Wish, *, below: str, limit: int) -> list[Matching]:
    """Return a job's unfinished runs that are meant, newest first, from one on."""
    rows = db.rows(
        "runs_matching",
        job_id=job_id,
        below=below,
        before=to_ms(wish.before),
        statuses=write_json(wish.statuses),
        waiting_for=wish.waiting_for,
        limit=limit,
    )
    return [Matching(run_id, Status(status)) for run_id, status in rows]


def count_matching(db: Database, job_id: str, wish: Wish) -> tuple[int, int]:
    """Return how many queued and how many started runs of a job are meant."""
    row = db.row(
        "runs_matching_count",
        job_id=job_id,
        before=to_ms(wish.before),
        statuses=write_json(wish.statuses),
        waiting_for=wish.waiting_for,
    )
    assert row is not None
    return row[0], row[1]


def backfilled(db: Database, job_id: str, *, since: datetime, until: datetime) -> set[datetime]:
    """Return the instants in [since, until) that a backfill has made runs for."""
    rows = db.rows("runs_backfilled", job_id=job_id, since=to_ms(since), until=to_ms(until))
    return {from_ms(at) for (at,) in rows}


def fired(db: Database, job_id: str, instants: Sequence[datetime]) -> set[datetime]:
    """Return which of these instants of a cron, at or fixed schedule really ran."""
    keys = write_json([str(to_ms(at)) for at in instants])
    return {from_ms(at) for (at,) in db.rows("runs_fired", job_id=job_id, keys=keys)}


def last_backfill(db: Database, job_id: str) -> str | None:
    """Return the newest unfinished run that a backfill of the job has made, None for none."""
    row = db.row("run_last_backfill", job_id=job_id)
    return None if row is None else str(row[0])


def durations(db: Database, job_id: str, *, limit: int) -> list[timedelta]:
    """Return how long the job's newest runs took."""
    return [took * MILLISECOND for (took,) in db.rows("runs_durations", job_id=job_id, limit=limit)]
