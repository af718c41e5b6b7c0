"""Chains of retries, and queued runs that wait for others (DEC-001, R-02)."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from rota.model.clock import from_ms_or_none, to_ms
from rota.model.records import Run
from rota.model.states import Trigger
from rota.store.driver import Database
from rota.store.rows import run_of


class Chain(NamedTuple):
    """What a run and its retries began with: the door it came through, and the first start of them all."""

    trigger: Trigger
    first_started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Follower:
    """A queued run that waits for its predecessor."""

    id: str
    job_id: str
    version: int
    trigger: Trigger


def followers(db: Database, run_id: str) -> list[Follower]:
    """Return the queued runs that wait for this one as their predecessor, oldest first; members of groups left out."""
    return [
        Follower(follower, job_id, version, Trigger(trigger))
        for follower, job_id, version, trigger in db.rows("runs_following", id=run_id)
    ]


def last_ahead(db: Database, run_id: str) -> str | None:
    """Return the last of the job's unfinished runs that came before this one, None where it is the first in line."""
    row = db.row("run_last_ahead", id=run_id)
    return row[0] if row else None


def replacing_runs(db: Database, job_id: str) -> list[str]:
    """Return the job's queued runs that wait until those they replace are gone, oldest first."""
    return [run_id for (run_id,) in db.rows("runs_replacing", job_id=job_id)]


def relink_followers(db: Database, run_id: str, successor_id: str) -> None:
    """Let those who wait for a run wait for another one."""
    db.execute("runs_relink_followers", id=run_id, successor_id=successor_id)


def chain_of(db: Database, chain_id: str) -> Chain:
    """Return what a chain began with; its first run is there as long as the chain is not final."""
    row = db.row("chain_begun", id=chain_id)
    assert row is not None
    return Chain(Trigger(row[0]), from_ms_or_none(row[1]))


def chain_runs(db: Database, chain_id: str) -> list[Run]:
    """Return the runs of a chain, the first one first."""
    return [run_of(row) for row in db.records("runs_of_chain", id=chain_id)]


def retry_of(db: Database, run_id: str) -> Run | None:
    """Return the automatic retry of a run, None for none."""
    found = db.records("run_retried_as", id=run_id)
    return run_of(found[0]) if found else None


def scheduled_chain_unfinished(db: Database, job_id: str) -> bool:
    """Tell whether a chain that the schedule began is not final."""
    return db.row("chain_scheduled_unfinished", job_id=job_id) is not None


def unfinished_before(db: Database, job_id: str, run_id: str) -> bool:
    """Tell whether the job has an unfinished run older than this one."""
    return db.row("run_unfinished_before", job_id=job_id, id=run_id) is not None


def is_unfinished(db: Database, run_id: str) -> bool:
    """Tell whether a run is there and not final."""
    return db.row("run_is_unfinished", id=run_id) is not None


def relink(db: Database, run_id: str, predecessor_id: str) -> None:
    """Let a waiting run wait for another predecessor."""
    db.execute("run_relink", id=run_id, predecessor_id=predecessor_id)


def let_go(db: Database, run_id: str) -> bool:
    """Make a waiting run claimable; tell whether it is: that of a group begins instead."""
    return db.execute("run_let_go", id=run_id) == 1


def let_go_due(db: Database, now: datetime) -> int:
    """Make runs claimable whose waiting time is over; return how many."""
    return db.execute("runs_let_go", now=to_ms(now))
