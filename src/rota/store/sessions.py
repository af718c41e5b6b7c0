"""The newest sessions of agents, by job, and the last summaries of jobs."""

from dataclasses import dataclass
from datetime import datetime

from rota.model.agents import Session
from rota.model.budget import MILLION
from rota.model.clock import from_ms, to_ms
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job that was COMPLETED."""

    handle: str
    finished_at: datetime
    summary: str | None


def session_of(db: Database, job_id: str, *, adapter: str, worker_id: str) -> Session | None:
    """Return the newest session of a job with this program, None for none, or for one of another worker's disk."""
    row = db.row("agent_session", job_id=job_id, adapter=adapter)
    if row is None or row[5] not in (None, worker_id):
        return None
    return Session(row[0], row[1] / MILLION, row[2], row[3], row[4], adapter)


def save_session(db: Database, job_id: str, session: Session, *, run_id: str, now: datetime) -> None:
    """Make a session the newest of a job."""
    db.execute(
        "agent_session_save",
        job_id=job_id,
        adapter=session.adapter,
        session_id=session.id,
        run_id=run_id,
        usd=round(session.usd * MILLION),
        tokens_in=session.tokens_in,
        tokens_out=session.tokens_out,
        tokens_cached=session.tokens_cached,
        at=to_ms(now),
    )


def drop_session(db: Database, job_id: str, session_id: str) -> bool:
    """Forget a session; tell whether it was still the newest."""
    return db.execute("agent_session_drop", job_id=job_id, session_id=session_id) == 1


def last_completed(db: Database, job_id: str) -> LastRun | None:
    """Return the last run of a job that was COMPLETED, None for none."""
    row = db.row("run_last_completed", job_id=job_id)
    return None if row is None else LastRun(row[0], from_ms(row[1]), row[2])
