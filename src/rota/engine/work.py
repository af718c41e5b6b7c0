"""Work items in the database: stored before the source is asked, held with the run, settled with its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.claims import Claim, ClaimState
from rota.model.records import Outcome
from rota.model.spec import WorkSource
from rota.model.work import WorkItem, WorkReport, WorkRequest
from rota.rules.work import Ending, ending_of
from rota.store import runs, work
from rota.store.driver import Database

LATE = timedelta(seconds=5)
"""How much longer than its timeout a request may be under way whose run no longer waits for it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A direct call that ended."""

    id: str
    outcome: Outcome


def ask(db: Database, *, run: runs.Candidate, source: WorkSource, now: datetime) -> WorkRequest:
    """Store that a run is about to ask its source, and return the request."""
    claim = work.intend(db, run_id=run.id, handle=run.handle, source=source, now=now)
    return WorkRequest(claim, run.job, run.handle, now, run.params)


def hold(db: Database, *, request: WorkRequest, source: WorkSource, item: WorkItem, now: datetime) -> str | None:
    """Store what a run got; return who holds it already, in which case what this request claimed is given back."""
    if work.hold(db, request.claim, item, now=now):
        return None
    work.end(db, request.claim, ClaimState.RELEASING, at=now, not_before=now)
    return next(iter(work.holders(db, source)), "another run")


def give_back(db: Database, claim: str, *, now: datetime) -> None:
    """Plan that whatever a request may have claimed is given back: its source failed to answer."""
    work.end(db, claim, ClaimState.RELEASING, at=now, not_before=now)


def settle(db: Database, ended: Sequence[runs.Ended | Gone], *, now: datetime) -> None:
    """Plan what the sources of ended runs are told, in the transaction of their end."""
    claims = work.open_claims(db, [one.id for one in ended])
    if not claims:
        return
    outcomes = {one.id: one.outcome for one in ended}
    for claim in claims:
        _settle(db, claim, outcomes[claim.run_id], now=now)


def put_back(db: Database, run_id: str, *, now: datetime, lost: bool = False) -> None:
    """Plan that what a run has claimed is given back, as it waits again; `lost`: its process is gone."""
    for claim in work.open_claims(db, [run_id]):
        until = now if lost or claim.item is not None else _answered_by(claim, now)
        work.end(db, claim.claim, ClaimState.RELEASING, at=now, not_before=until)


def _answered_by(claim: Claim, now: datetime) -> datetime:
    """Return when a request that is under way has been answered, also where nobody hears it."""
    return max(now, claim.asked_at + claim.source.timeout + LATE)


def _settle(db: Database, claim: Claim, outcome: Outcome, *, now: datetime) -> None:
    if claim.item is None:  # the source is still being asked: what it answers is given back
        work.end(db, claim.claim, ClaimState.RELEASING, at=now, not_before=_answered_by(claim, now))
        return
    failures = work.failures(db, claim.source, claim.item.id)
    verdict = ending_of(outcome.status, outcome.reason, failures=failures, attempts=claim.source.attempts)
    if verdict.ending is Ending.RELEASED:
        work.end(db, claim.claim, ClaimState.RELEASING, at=now, not_before=now, failed=verdict.failed)
        return
    report = WorkReport(
        success=verdict.ending is Ending.DONE,
        run=claim.handle,
        summary=outcome.summary or "",
        error=outcome.error or (str(outcome.reason) if outcome.reason else ""),
    )
    work.end(db, claim.claim, ClaimState.REPORTING, at=now, not_before=now, failed=verdict.failed, report=report)
