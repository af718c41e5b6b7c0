"""The shared poll: one fetch for all that need it, recorded and handed on in one transaction (R-16)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota import faults
from rota.model.clock import iso
from rota.model.ids import new_id
from rota.model.records import Outcome
from rota.model.states import Reason, Status, Trigger
from rota.rules.polling import bounded, is_fresh
from rota.store import births, finding, jobs, polls, runs
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Needed:
    """What a run that needs the poll finds: data that serves it, or that it must wait."""

    data: Mapping[str, Any] | None
    at: datetime | None
    fresh: bool


def look(db: Database, *, born: datetime, now: datetime) -> Needed:
    """Return what the newest good poll gives to a run that was born then."""
    job = jobs.job_by_name(db, polls.POLL)  # first: who ends a poll holds it, so that nobody begins to wait unseen
    found = polls.last_poll(db)
    if found is None or found.good_at is None:
        return Needed(None, None, fresh=False)
    fresh = is_fresh(found.good_at, interval=job.interval if job else None, born=born, now=now)
    return Needed(found.data, found.good_at, fresh)


def on_demand(db: Database, *, now: datetime) -> births.Newborn | None:
    """Return the poll that must be made because nobody else makes one: it never comes by itself in this mode."""
    job = jobs.job_by_name(db, polls.POLL)
    if job is None or not job.schedules or job.interval is not None or finding.unfinished_runs(db, job.id):
        return None
    return births.Newborn(id=new_id(now), job=job, trigger=Trigger.NEED, created_at=now)


def follow(db: Database, ended: Sequence[runs.Ended], *, now: datetime) -> list[runs.End]:
    """Store how a poll ended and let go who waited for it; return those that end because it failed."""
    job_id = polls.poll_job_id(db) if ended else None
    further: list[runs.End] = []
    for run in ended:
        if run.job_id == job_id:
            further += _follow(db, run, now=now)
    return further


def _follow(db: Database, run: runs.Ended, *, now: datetime) -> list[runs.End]:
    outcome = run.outcome
    job = jobs.job_by_id(db, run.job_id)
    polls.suggest(db, job.id, bounded(outcome.suggested, job.spec.schedule))
    completed = outcome.status is Status.COMPLETED
    detail = outcome.summary if completed else outcome.error or outcome.reason or outcome.status
    polls.store_poll(db, run_id=run.id, at=run.finished_at, detail=str(detail or ""), data=_data(outcome))
    faults.point("poll.stored")
    if completed:
        polls.let_go(db)
        return []
    return give_up(db, f"the poll at {iso(run.finished_at)} failed: {detail}", now=now)


def give_up(db: Database, why: str, *, now: datetime) -> list[runs.End]:
    """Return the ends of all runs that wait for a poll."""
    failed = Outcome(Status.SKIPPED, Reason.POLL_FAILED, error=why)
    return [runs.End(waiting, failed, expected=Status.QUEUED, at=now) for waiting in polls.waiting(db)]


def _data(outcome: Outcome) -> Mapping[str, Any] | None:
    return (outcome.poll or {}) if outcome.status is Status.COMPLETED else None
