"""Enqueue: the single door through which runs are born."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rota import faults
from rota.engine.record import finish
from rota.model.ids import new_id
from rota.model.records import Job, Outcome
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.overlap import ActiveRun, After, Go, Replace
from rota.store import jobs, runs
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Born:
    """A run that was just stored."""

    id: str
    job: str
    number: int

    @property
    def handle(self) -> str:
        """The run as people write it: `backup:112`."""
        return f"{self.job}:{self.number}"


def enqueue(
    db: Database,
    job: Job,
    verdict: Go | After | Replace,
    *,
    trigger: Trigger,
    now: datetime,
    slot_key: str | None = None,
    scheduled_for: datetime | None = None,
    params: Mapping[str, Any] | None = None,
    forced: bool = False,
    decisions: Mapping[str, Any] | None = None,
) -> Born:
    """Store a new run in the queue, as the overlap verdict says, and cancel what it replaces (R-11, R-12)."""
    expires_after = job.spec.gates.expires_after
    run = runs.Newborn(
        id=new_id(now),
        job=job,
        trigger=trigger,
        created_at=now,
        slot_key=slot_key,
        scheduled_for=scheduled_for,
        expires_at=now + expires_after if expires_after else None,
        params=params,
        forced=forced,
        decisions=decisions,
    )
    if isinstance(verdict, After):
        run = replace(run, waiting_for=WaitingFor.PREDECESSOR, predecessor_id=verdict.predecessor_id)
    if isinstance(verdict, Replace) and _stop_replaced(db, verdict.run_ids, now=now):
        run = replace(run, waiting_for=WaitingFor.REPLACED_RUN)
    return _insert(db, run)


def skip(
    db: Database,
    job: Job,
    reason: Reason,
    *,
    now: datetime,
    slot_key: str,
    scheduled_for: datetime,
    covers_to: datetime | None = None,
    count: int | None = 1,
    error: str | None = None,
    decisions: Mapping[str, Any] | None = None,
) -> Born:
    """Store the row of one or more instants that do not run."""
    return _insert(
        db,
        runs.Newborn(
            id=new_id(now),
            job=job,
            trigger=Trigger.SCHEDULE,
            created_at=now,
            slot_key=slot_key,
            scheduled_for=scheduled_for,
            covers_to=covers_to,
            count=count,
            reason=reason,
            error=error,
            decisions=decisions,
        ),
    )


def _insert(db: Database, run: runs.Newborn) -> Born:
    number = jobs.next_number(db, run.job.id)
    runs.insert_run(db, run, number=number)
    faults.point("enqueue.inserted")
    return Born(run.id, run.job.name, number)


def _stop_replaced(db: Database, run_ids: tuple[str, ...], *, now: datetime) -> bool:
    """Cancel the runs that a new one replaces; tell whether some of them must first be stopped."""
    final = [cancel(db, run_id, reason=Reason.REPLACED, now=now) for run_id in run_ids]
    return not all(final)


def cancel(db: Database, run_id: str, *, reason: Reason, now: datetime) -> bool:
    """Cancel a run: at once if it is queued, else ask its holder to stop it. Tell whether it is final now."""
    run = runs.run_by_id(db, run_id)
    if run is None or run.status.final:
        return True
    if run.status is Status.QUEUED:
        outcome = Outcome(Status.CANCELLED, reason)
        return finish(db, run_id, outcome, expected=Status.QUEUED, epoch=None, now=now)
    runs.ask_cancel(db, run_id, reason=reason, now=now)
    return False


def active_runs(db: Database, job_id: str) -> tuple[ActiveRun, ...]:
    """Return the job's unfinished runs as the overlap rule looks at them, oldest first."""
    return tuple(ActiveRun(run.id, run.handle, run.status, run.waiting_for) for run in runs.unfinished_runs(db, job_id))
