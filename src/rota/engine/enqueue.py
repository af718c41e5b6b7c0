"""Enqueue: the single door through which runs are born."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rota.engine import group
from rota.engine.birth import Born, bear
from rota.engine.record import finish, finish_all
from rota.model.ids import new_id, stay_above
from rota.model.records import Group, Job, Outcome
from rota.model.spec import Kind, OverlapPolicy
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.overlap import (
    ActiveRun,
    After,
    Go,
    PendingRetry,
    Refuse,
    Replace,
    TooMany,
    judge_many,
    replaced_retries,
)
from rota.rules.planned import PlannedSkip
from rota.store import births, finding, groups, runs
from rota.store.driver import Database
from rota.store.locking import hold_jobs_of


@dataclass(frozen=True, slots=True)
class ManualStart:
    """How overlap judges a manual start, and the retries in backoff whose place it takes (R-11, R-31)."""

    verdict: Go | After | Replace | Refuse | TooMany
    replaces: tuple[PendingRetry, ...] = ()

    @property
    def decisions(self) -> dict[str, Any]:
        """What the new run stores about the retries that it replaces."""
        return {"replaced": [one.handle for one in self.replaces]} if self.replaces else {}


def judge_start(
    db: Database,
    job: Job,
    params: Sequence[Mapping[str, Any]],
    *,
    force: bool = False,
    chain_id: str | None = None,
) -> ManualStart:
    """Judge a manual start of one run for each of `params`; with `force` overlap does not count.

    `chain_id`: the chain that is repeated, whose own retry is replaced in any case.
    """
    pending = finding.pending_retries(db, job)
    replaces = replaced_retries(job.spec.overlap, pending, params=params, chain_id=chain_id) if pending else ()
    if force:
        return ManualStart(Go(), replaces)
    gone = {one.id for one in replaces}
    active = [run for run in active_for(db, job) if run.id not in gone]
    return ManualStart(judge_many(job.spec.overlap, active, count=len(params)), replaces)


def replace_retries(db: Database, replaces: Sequence[PendingRetry], *, by: Born, now: datetime) -> None:
    """Cancel the retries whose place the run `by` takes; each of them names it (R-31)."""
    for one in replaces:
        cancel(
            db, one.id, reason=Reason.REPLACED, now=now, error=f"{by.handle} was started by hand and takes its place"
        )


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
    retry_of: str | None = None,
    decisions: Mapping[str, Any] | None = None,
    replaces: Sequence[PendingRetry] = (),
) -> Born:
    """Store a new run in the queue, as the overlap verdict says, and cancel what it replaces (R-11, R-12, R-31)."""
    expires_after = job.spec.gates.expires_after
    run = births.Newborn(
        id=new_id(now),
        job=job,
        trigger=trigger,
        created_at=now,
        slot_key=slot_key,
        scheduled_for=scheduled_for,
        expires_at=now + expires_after if expires_after else None,
        params=params,
        forced=forced,
        retry_of=retry_of,
        decisions=decisions,
    )
    if isinstance(verdict, After):
        run = replace(run, waiting_for=WaitingFor.PREDECESSOR, predecessor_id=verdict.predecessor_id)
    if isinstance(verdict, Replace) and _stop_replaced(db, verdict.run_ids, now=now):
        run = replace(run, waiting_for=WaitingFor.REPLACED_RUN)
    born = _bear_group(db, run) if job.spec.work.kind is Kind.GROUP else bear(db, run)
    replace_retries(db, replaces, by=born, now=now)
    return born


def _bear_group(db: Database, run: births.Newborn) -> Born:
    """Store the run of a group; unless it waits it begins at once, with all of its members (R-15)."""
    begins = run.waiting_for is None
    born = bear(db, replace(run, begins=begins))
    if begins:
        finish_all(db, group.begin(db, born.id, now=run.created_at), epoch=None, now=run.created_at)
    return born


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
    return bear(
        db,
        births.Newborn(
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


def skip_planned(
    db: Database,
    job: Job,
    planned: PlannedSkip,
    *,
    now: datetime,
    error: str | None,
    decisions: Mapping[str, Any] | None = None,
) -> Born:
    """Store the row of the instants that a plan leaves out."""
    return skip(
        db,
        job,
        planned.reason,
        now=now,
        slot_key=planned.slot_key,
        scheduled_for=planned.scheduled_for,
        covers_to=planned.covers_to,
        count=planned.count,
        error=error,
        decisions=decisions,
    )


def _stop_replaced(db: Database, run_ids: tuple[str, ...], *, now: datetime) -> bool:
    """Cancel the runs that a new one replaces; tell whether some of them must first be stopped."""
    final = [cancel(db, run_id, reason=Reason.REPLACED, now=now) for run_id in run_ids]
    return not all(final)


def cancel(db: Database, run_id: str, *, reason: Reason, now: datetime, error: str | None = None) -> bool:
    """Cancel a run: at once if it is queued, else ask its holder to stop it. Tell whether it is final now."""
    hold_jobs_of(db, [run_id])
    run = runs.run_by_id(db, run_id)
    if run is None or run.status.final:
        return True
    if run.status is Status.QUEUED:
        outcome = Outcome(Status.CANCELLED, reason, error=error)
        return finish(db, run_id, outcome, expected=Status.QUEUED, epoch=None, now=now)
    begun = groups.group_of_run(db, run_id)
    if begun is not None:
        return cancel_group(db, begun, reason=reason, now=now)
    runs.ask_cancel(db, run_id, reason=reason, now=now)
    return False


def cancel_group(db: Database, begun: Group, *, reason: Reason, now: datetime) -> bool:
    """Cancel a group: its queued members at once, the others when they have stopped. Tell whether it is final now."""
    finish_all(db, group.cancel(db, begun, reason=reason, now=now), epoch=None, now=now)
    after = groups.group_by_id(db, begun.id)
    return after is None or after.finished_at is not None


def active_for(db: Database, job: Job) -> tuple[ActiveRun, ...]:
    """Return what overlap looks at: nothing where any number may run, so that a long queue costs nothing (R-11)."""
    return () if job.spec.overlap.policy is OverlapPolicy.ALLOW else active_runs(db, job.id)


def active_runs(db: Database, job_id: str) -> tuple[ActiveRun, ...]:
    """Return the job's unfinished runs as the overlap rule looks at them, oldest first: a retry is as old as its chain.

    Who comes last in line waits for the last one, so a retry must not stand behind those that wait for it.
    """
    found = sorted(finding.unfinished_runs(db, job_id), key=lambda run: (run.chain_id or run.id, run.id))
    if found:
        stay_above(max(run.id for run in found))  # another machine's clock may be ahead, and older means a lower one
    return tuple(ActiveRun(run.id, run.handle, run.status, run.waiting_for) for run in found)
