"""Runs as a timeline needs them: few columns of few runs, and counts where there are many."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.clock import from_ms, from_ms_or_none, to_ms
from rota.model.states import Reason, Status
from rota.store.driver import Database
from rota.store.runs import reason_or_none


@dataclass(frozen=True, slots=True)
class Drawn:
    """A run, as far as it is drawn."""

    number: int
    status: Status
    reason: Reason | None
    count: int | None
    scheduled_for: datetime | None
    covers_to: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How many runs of a job ended alike within a small part of a timeline, from the first to the last."""

    count: int
    since: datetime
    until: datetime


def newest_run_of_jobs(db: Database) -> dict[str, datetime]:
    """Return when the newest run of each job was made, by job; those without runs are not there."""
    return {job_id: from_ms(at) for job_id, at in db.rows("jobs_newest_run") if at is not None}


def striking_jobs(db: Database, *, newest: int) -> set[str]:
    """Return the jobs of whose newest runs one failed, was missed, expired or had a condition that failed."""
    return {job_id for (job_id,) in db.rows("jobs_striking", newest=newest)}


def drawn_runs(db: Database, job_id: str, *, limit: int) -> list[Drawn]:
    """Return the newest runs of a job, newest first."""
    return [
        Drawn(
            number,
            Status(status),
            reason_or_none(reason),
            count,
            from_ms_or_none(scheduled_for),
            from_ms_or_none(covers_to),
            from_ms(created_at),
            from_ms_or_none(started_at),
            from_ms_or_none(finished_at),
        )
        for number, status, reason, count, scheduled_for, covers_to, created_at, started_at, finished_at in db.rows(
            "timeline_runs", job_id=job_id, limit=limit
        )
    ]


def ended_runs(
    db: Database, job_id: str, status: Status, *, since: datetime, width: timedelta, limit: int
) -> list[Ended]:
    """Return how many runs of a job ended with this status in each part of a timeline, of the newest ones."""
    found = db.rows(
        "timeline_counts",
        job_id=job_id,
        status=status.value,
        since=to_ms(since),
        width=width // timedelta(milliseconds=1),
        limit=limit,
    )
    return [Ended(count, from_ms(first), from_ms(last)) for _, count, first, last in found]
