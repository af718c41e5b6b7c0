"""Work items and provider limits, as part of a run's transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from rota.engine.transactions.budgets import note_windows
from rota.model.agents import AgentProblem, ProviderHold, Refusal, WorkItem, WorkReport, WorkRequest
from rota.model.records import Claim, ClaimState, Outcome
from rota.model.spec import WorkSource
from rota.model.states import Reason, Status
from rota.rules.agents import forgets, hold_after, hold_after_check
from rota.rules.notifications import Ending, ending_of
from rota.store.driver import Database
from rota.store.tables import audit, queue, runs, work_items

LATE = timedelta(seconds=5)
"""How much longer than its timeout a request may be under way whose run no longer waits for it."""


class EndedCall(Struct, frozen=True):
    """A direct call that ended."""

    id: str
    outcome: Outcome


def ask(db: Database, *, run: runs.Candidate, source: WorkSource, now: datetime) -> WorkRequest:
    """Store that a run is about to ask its source, and return the request."""
    claim = work_items.intend(db, run_id=run.id, handle=run.handle, source=source, now=now)
    return WorkRequest(claim, run.job, run.handle, now, run.params)


def hold(db: Database, *, request: WorkRequest, source: WorkSource, item: WorkItem, now: datetime) -> str | None:
    """Store the item of a run; if another run holds it, return that run and plan the release of this claim."""
    if work_items.hold(db, request.claim, item, now=now):
        return None
    work_items.end(db, request.claim, ClaimState.RELEASING, at=now, not_before=now)
    return next(iter(work_items.holders(db, source)), "another run")


def give_back(db: Database, claim: str, *, now: datetime) -> None:
    """Plan the release of an item that a failed request may have claimed."""
    work_items.end(db, claim, ClaimState.RELEASING, at=now, not_before=now)


def settle(db: Database, ended: Sequence[runs.FinishedRun | EndedCall], *, now: datetime) -> None:
    """Plan what the sources of ended runs are told, in the transaction of their end."""
    claims = work_items.open_claims(db, [one.id for one in ended])
    if not claims:
        return
    outcomes = {one.id: one.outcome for one in ended}
    for claim in claims:
        _settle(db, claim, outcomes[claim.run_id], now=now)


def put_back(db: Database, run_id: str, *, now: datetime, lost: bool = False) -> None:
    """Plan that what a run has claimed is given back, as it waits again; `lost`: its process is gone."""
    for claim in work_items.open_claims(db, [run_id]):
        until = now if lost or claim.item is not None else _answered_by(claim, now)
        work_items.end(db, claim.claim, ClaimState.RELEASING, at=now, not_before=until)


def _answered_by(claim: Claim, now: datetime) -> datetime:
    return max(now, claim.asked_at + claim.source.timeout + LATE)


def _settle(db: Database, claim: Claim, outcome: Outcome, *, now: datetime) -> None:
    if claim.item is None:  # the source is still being asked: what it answers is given back
        work_items.end(db, claim.claim, ClaimState.RELEASING, at=now, not_before=_answered_by(claim, now))
        return
    failures = work_items.failures(db, claim.source, claim.item.id)
    verdict = ending_of(outcome.status, outcome.reason, failures=failures, attempts=claim.source.attempts)
    if verdict.ending is Ending.RELEASED:
        work_items.end(db, claim.claim, ClaimState.RELEASING, at=now, not_before=now, failed=verdict.failed)
        return
    report = WorkReport(
        success=verdict.ending is Ending.DONE,
        run=claim.handle,
        summary=outcome.summary or "",
        error=outcome.error or (str(outcome.reason) if outcome.reason else ""),
    )
    work_items.end(db, claim.claim, ClaimState.REPORTING, at=now, not_before=now, failed=verdict.failed, report=report)


HOLDING = frozenset({Reason.QUOTA, Reason.OUTAGE, Reason.AUTH})
"""Failures after which no run of the provider would do better."""


class ProviderAnswer(Struct, frozen=True):
    """The end of a run that asked a provider."""

    run_id: str
    outcome: Outcome
    began_at: datetime
    at: datetime


def note_answers(db: Database, answered: Iterable[ProviderAnswer], *, now: datetime) -> None:
    """Store the windows that were reported, hold the providers that refused, and forget earlier refusals."""
    for answer in answered:
        if answer.outcome.windows and answer.outcome.provider is not None:
            note_windows(db, answer.outcome.provider, answer.outcome.windows, at=answer.at)
        if answer.outcome.status is Status.FAILED and answer.outcome.reason in HOLDING:
            _hold(db, answer, now=now)
        elif answer.outcome.status is Status.COMPLETED:
            _forget(db, answer)


def _hold(db: Database, refused: ProviderAnswer, *, now: datetime) -> None:
    outcome, provider = refused.outcome, refused.outcome.provider
    assert provider is not None, "only ends of agents come here"
    provider_hold = queue.hold_of(db, provider)
    refusal = Refusal(
        refused.began_at,
        refused.at,
        outcome.error or "",
        outcome.resets_at,
        refused.run_id,
        AgentProblem(str(outcome.reason)),
    )
    hold = hold_after(provider_hold, refusal, provider=provider)
    if hold == provider_hold or hold.until is None:
        return
    queue.put_hold(db, hold)
    audit.insert_event(
        db, "provider_held", now=now, run_id=refused.run_id, provider=provider, until=hold.until.isoformat()
    )


def _forget(db: Database, done: ProviderAnswer) -> None:
    provider = done.outcome.provider
    provider_hold = None if provider is None else queue.hold_of(db, provider)
    if provider_hold is not None and forgets(provider_hold, began_at=done.began_at):
        queue.forget_hold(db, provider_hold.provider)


def note_check(db: Database, hold: ProviderHold, *, works: bool, now: datetime) -> bool:
    """Store the check of a login, and release the provider if it works; return whether this released it.

    A hold that changed since it was read stays as it is.
    """
    if queue.hold_of(db, hold.provider) != hold:
        return False
    queue.put_hold(db, hold_after_check(hold, works=works, now=now))
    if works:
        audit.insert_event(db, "provider_released", now=now, provider=hold.provider)
    return works
