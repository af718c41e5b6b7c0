"""Holds of providers: set by a run that was refused, forgotten after one that succeeded (section 8)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from rota.model.holds import ProviderHold, Refusal
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.rules.provider_hold import forgets, hold_after
from rota.store import events, holds, runs
from rota.store.driver import Database

HOLDING = frozenset({Reason.QUOTA, Reason.OUTAGE})
"""Failures after which no run of the provider would do better."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The end of a run that asked a provider."""

    run_id: str
    outcome: Outcome
    began_at: datetime
    at: datetime


def note_answers(db: Database, answered: Iterable[Answered], *, now: datetime) -> None:
    """Hold the providers that refused, and forget the refusals of those that work again."""
    for one in answered:
        if one.outcome.status is Status.FAILED and one.outcome.reason in HOLDING:
            _hold(db, one, now=now)
        elif one.outcome.status is Status.COMPLETED:
            _forget(db, one)


def _hold(db: Database, refused: Answered, *, now: datetime) -> None:
    outcome, provider = refused.outcome, refused.outcome.provider
    assert provider is not None, "only ends of agents come here"
    known = _of_the_same_kind(db, holds.hold_of(db, provider), outcome.reason)
    refusal = Refusal(
        refused.began_at,
        refused.at,
        outcome.error or "",
        outcome.resets_at,
        refused.run_id,
        outage=outcome.reason is Reason.OUTAGE,
    )
    hold = hold_after(known, refusal, provider=provider)
    if hold == known or hold.until is None:
        return
    holds.put_hold(db, hold)
    events.note(db, "provider_held", now=now, run_id=refused.run_id, provider=provider, until=hold.until.isoformat())


def _of_the_same_kind(db: Database, known: ProviderHold | None, reason: Reason | None) -> ProviderHold | None:
    """Return what is known of a provider; a count of refusals is none of outages, and the other way round."""
    run = runs.run_by_id(db, known.run_id) if known is not None and known.run_id is not None else None
    if known is None or run is None or run.reason in (None, reason):
        return known
    return replace(known, refusals=0)


def _forget(db: Database, done: Answered) -> None:
    provider = done.outcome.provider
    known = None if provider is None else holds.hold_of(db, provider)
    if known is not None and forgets(known, began_at=done.began_at):
        holds.forget_hold(db, known.provider)
