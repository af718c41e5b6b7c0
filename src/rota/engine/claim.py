"""Claim: take ready runs, in order, into free slots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota import faults
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
    specs: dict[tuple[str, int], JobSpec] = {}
    slots = iter(free)
    for run in runs.candidates(db, free=len(free)):
        spec = _spec(db, run, specs)
        admission = decide(spec.gates, expires_at=run.expires_at, forced=run.forced, conditions=(), now=now)
        if isinstance(admission, Skip):
            outcome = Outcome(Status.SKIPPED, admission.reason, error=admission.why)
            finish(db, run.id, outcome, expected=Status.QUEUED, epoch=None, now=now)
            continue
        claimed.append(Claimed(run, spec, next(slots), starts_at_once(spec, forced=run.forced)))
    _take(db, claimed, holder, now=now)
    return claimed


def _spec(db: Database, run: runs.Candidate, known: dict[tuple[str, int], JobSpec]) -> JobSpec:
    key = (run.job_id, run.version)
    if key not in known:
        known[key] = jobs.version_spec(db, *key)
    return known[key]


def _take(db: Database, claimed: Sequence[Claimed], holder: Holder, *, now: datetime) -> None:
    """Move the runs into their slots, all by one statement: one each costs more than the work itself."""
    if not claimed:
        return
    taken = [runs.Taken(one.run.id, one.slot, one.started) for one in claimed]
    changed = runs.claim_runs(db, taken, worker_id=holder.worker_id, epoch=holder.epoch, now=now)
    assert changed == len(claimed), "the candidates were read in this transaction"
    faults.point("claim.updated")
    _insert_executions(db, [one for one in claimed if one.started], holder, process=holder.identity, now=now)


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
    _insert_executions(db, [claimed], holder, process=process, now=now)
    faults.point("execute.start_written")
    return True


def _insert_executions(
    db: Database, started: Sequence[Claimed], holder: Holder, *, process: ProcessIdentity, now: datetime
) -> None:
    begun = [runs.Begun(new_id(now), one.run.id, one.run.job_id, one.slot) for one in started]
    if begun:
        runs.insert_executions(db, begun, worker_id=holder.worker_id, epoch=holder.epoch, process=process, now=now)
