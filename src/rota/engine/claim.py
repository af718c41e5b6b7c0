"""Claim: take ready runs, in order, into free slots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.engine.pause import claiming_paused
from rota.engine.record import finish
from rota.model.ids import new_id
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import JobSpec, OverlapPolicy
from rota.model.states import Status
from rota.rules.admission import Skip, decide
from rota.store import jobs, runs
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that claims: every write of its runs names its epoch."""

    worker_id: str
    epoch: int
    identity: ProcessIdentity


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run in a slot, with its frozen definition. `started`: nothing stood before its start (R-01)."""

    run: runs.Candidate
    spec: JobSpec
    slot: int
    started: bool


def claim(db: Database, holder: Holder, free: Sequence[int], *, now: datetime) -> list[Claimed]:
    """Fill the free slots with the runs that come first."""
    if claiming_paused(db, now):
        return []
    claimed: list[Claimed] = []
    slots = iter(free)
    for run in runs.candidates(db, free=len(free)):
        spec = jobs.version_spec(db, run.job_id, run.version)
        admission = decide(spec.gates, expires_at=run.expires_at, forced=run.forced, conditions=(), now=now)
        if isinstance(admission, Skip):
            outcome = Outcome(Status.SKIPPED, admission.reason, error=admission.why)
            finish(db, run.id, outcome, expected=Status.QUEUED, epoch=None, now=now)
            continue
        claimed.append(_take(db, run, spec, holder, slot=next(slots), now=now))
    return claimed


def _take(db: Database, run: runs.Candidate, spec: JobSpec, holder: Holder, *, slot: int, now: datetime) -> Claimed:
    started = starts_at_once(spec, forced=run.forced)
    taken = runs.claim_run(
        db, run.id, worker_id=holder.worker_id, slot=slot, epoch=holder.epoch, started=started, now=now
    )
    assert taken, "the candidate was read in this transaction"
    if started:
        _insert_execution(db, run, holder, slot=slot, process=holder.identity, now=now)
    return Claimed(run, spec, slot, started)


def starts_at_once(spec: JobSpec, *, forced: bool) -> bool:
    """Tell whether nothing stands between claim and start: a function without gates that replaces no other (R-01)."""
    gated = spec.gates.conditions and not forced
    return spec.work.in_process and not gated and spec.overlap.policy is not OverlapPolicy.REPLACE


def start(db: Database, claimed: Claimed, holder: Holder, *, process: ProcessIdentity, now: datetime) -> bool:
    """Move a dispatched run to RUNNING with its execution; tell whether it was still ours and wanted."""
    row = db.row("run_ending", id=claimed.run.id)
    if row is None or row[1] is not None:
        return False
    if not runs.start_run(db, claimed.run.id, epoch=holder.epoch, now=now):
        return False
    _insert_execution(db, claimed.run, holder, slot=claimed.slot, process=process, now=now)
    return True


def _insert_execution(
    db: Database, run: runs.Candidate, holder: Holder, *, slot: int, process: ProcessIdentity, now: datetime
) -> None:
    runs.insert_execution(
        db,
        run.id,
        execution_id=new_id(now),
        job_id=run.job_id,
        worker_id=holder.worker_id,
        slot=slot,
        epoch=holder.epoch,
        process=process,
        now=now,
    )
