"""Polls and the state shared by jobs, as part of a run's transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.model.clock import iso
from rota.model.ids import new_id
from rota.model.records import SCHEDULER_STATE_LIMIT, Outcome
from rota.model.states import Reason, Status, Trigger
from rota.rules.activity import bounded, is_fresh, merged
from rota.store.driver import Database
from rota.store.rows import write_json
from rota.store.tables import activity, jobs, run_queries, runs
from rota.store.tables.processes import CriticalSection, lock_section


class Needed(Struct, frozen=True):
    """The poll for a run: usable data, or the need to wait."""

    data: Mapping[str, Any] | None
    at: datetime | None
    fresh: bool


def look(db: Database, *, born: datetime, now: datetime) -> Needed:
    """Return what the newest good poll gives to a run that was born then."""
    job = jobs.job_by_name(db, activity.POLL)  # first: the end of a poll locks it, so that no run begins to wait unseen
    found = activity.last_poll(db)
    if found is None or found.good_at is None:
        return Needed(None, None, fresh=False)
    fresh = is_fresh(found.good_at, interval=job.interval if job else None, born=born, now=now)
    return Needed(found.data, found.good_at, fresh)


def on_demand(db: Database, *, now: datetime) -> runs.NewRun | None:
    """Return the poll to insert where the current mode schedules none."""
    job = jobs.job_by_name(db, activity.POLL)
    if job is None or not job.schedules or job.interval is not None or run_queries.unfinished_runs(db, job.id):
        return None
    return runs.NewRun(id=new_id(now), job=job, trigger=Trigger.NEED, created_at=now)


def follow(db: Database, run: runs.FinishedRun, *, now: datetime) -> list[runs.RunEnd]:
    """Store how a poll ended and release the runs that wait for it; return those that end because it failed."""
    outcome = run.outcome
    job = jobs.job_by_id(db, run.job_id)
    activity.suggest(db, job.id, bounded(outcome.suggested, job.spec.schedule))
    completed = outcome.status is Status.COMPLETED
    detail = outcome.summary if completed else outcome.error or outcome.reason or outcome.status
    activity.store_poll(db, run_id=run.id, at=run.finished_at, detail=str(detail or ""), data=_data(outcome))
    faults.point("poll.stored")
    if completed:
        activity.release(db)
        return []
    return give_up(db, f"the poll at {iso(run.finished_at)} failed: {detail}", now=now)


def give_up(db: Database, why: str, *, now: datetime) -> list[runs.RunEnd]:
    """Return the ends of all runs that wait for a poll."""
    failed = Outcome(Status.SKIPPED, Reason.POLL_FAILED, error=why)
    return [runs.RunEnd(waiting, failed, expected=Status.QUEUED, at=now) for waiting in activity.waiting(db)]


def _data(outcome: Outcome) -> Mapping[str, Any] | None:
    return (outcome.poll or {}) if outcome.status is Status.COMPLETED else None


KEY = "scheduler_state"


def scheduler_state(db: Database) -> dict[str, Any]:
    """Return the document that all jobs share."""
    row = db.row("meta_get", key=KEY)
    found: dict[str, Any] = json.loads(row[0]) if row is not None else {}
    return found


def judge(db: Database, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return outcomes that may be stored: a run whose changes no longer fit into the document has failed."""
    if any(outcome.scheduler_state for outcome in outcomes):
        lock_section(db, CriticalSection.STATE)
    document, judged = scheduler_state(db), []
    for outcome in outcomes:
        wanted = merged(document, outcome.scheduler_state or {})
        size = len(write_json(wanted).encode())
        if outcome.scheduler_state and size > SCHEDULER_STATE_LIMIT:
            judged.append(_too_large(outcome, size))
        else:
            document = wanted
            judged.append(outcome)
    return judged


def _too_large(outcome: Outcome, size: int) -> Outcome:
    error = f"`scheduler_state` would be {size:,} bytes, the limit is {SCHEDULER_STATE_LIMIT:,}"
    return replace(
        outcome, status=Status.FAILED, reason=Reason.RESULT_INVALID, error=error, state=None, scheduler_state=None
    )


def save(db: Database, changed: Iterable[Mapping[str, Any] | None]) -> None:
    """Merge what runs changed, in their order."""
    told = [one for one in changed if one]
    if not told:
        return
    document = scheduler_state(db)
    for one in told:
        document = merged(document, one)
    db.execute("meta_set", key=KEY, value=write_json(document))
