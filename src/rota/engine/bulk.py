"""Bulk: many runs of one job enter the queue, or leave it, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.engine.birth import Born, bear_many
from rota.engine.enqueue import cancel, enqueue
from rota.engine.record import finish_all
from rota.model.ids import leave, new_id
from rota.model.records import Job, Outcome
from rota.model.spec import Kind
from rota.model.states import Reason, Status, Trigger
from rota.rules.overlap import After, Go, Replace
from rota.store import births, chains, runs
from rota.store.driver import Database
from rota.store.finding import Matching

Verdict = Go | After | Replace


@dataclass(frozen=True, slots=True)
class Wanted:
    """One of many runs to be made; `params` None: the job's."""

    params: Mapping[str, Any] | None = None
    scheduled_for: datetime | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What many runs of one job have alike. `chained`: each waits for the one before it."""

    job: Job
    trigger: Trigger
    chained: bool
    forced: bool = False
    decisions: Mapping[str, Any] | None = None


def enqueue_many(
    db: Database, order: Order, wanted: Sequence[Wanted], *, verdict: Verdict, now: datetime
) -> list[Born]:
    """Store runs in the queue, in their order, the first as `verdict` says."""
    one_by_one = order.job.spec.work.kind is Kind.GROUP or isinstance(verdict, Replace)
    if one_by_one or len(wanted) == 1:
        return _one_by_one(db, order, wanted, verdict=verdict, now=now)
    siblings = _siblings(wanted, verdict, chained=order.chained, now=now)
    expires_after = order.job.spec.gates.expires_after
    shared = births.Newborn(
        id=siblings[0].id,
        job=order.job,
        trigger=order.trigger,
        created_at=now,
        expires_at=now + expires_after if expires_after else None,
        forced=order.forced,
        decisions=order.decisions,
    )
    return bear_many(db, shared, siblings)


def _siblings(wanted: Sequence[Wanted], verdict: Verdict, *, chained: bool, now: datetime) -> list[births.Sibling]:
    before = verdict.predecessor_id if isinstance(verdict, After) else None
    siblings: list[births.Sibling] = []
    for one in wanted:
        siblings.append(births.Sibling(new_id(now), one.params, one.scheduled_for, before))
        before = siblings[-1].id if chained else None
    leave(siblings[-1].id)  # these fill their millisecond: who comes next stands behind all of them
    return siblings


def _one_by_one(db: Database, order: Order, wanted: Sequence[Wanted], *, verdict: Verdict, now: datetime) -> list[Born]:
    born: list[Born] = []
    for one in wanted:
        made = enqueue(
            db,
            order.job,
            _following(db, born, chained=order.chained) if born else verdict,
            trigger=order.trigger,
            now=now,
            scheduled_for=one.scheduled_for,
            params=one.params,
            forced=order.forced,
            decisions=order.decisions,
        )
        born.append(made)
    return born


def _following(db: Database, born: Sequence[Born], *, chained: bool) -> Go | After:
    """Return how the next of many runs stands to the one before, which may have ended at its birth already."""
    unfinished = chained and chains.is_unfinished(db, born[-1].id)
    return After(born[-1].id) if unfinished else Go()


def cancel_many(db: Database, found: Sequence[Matching], *, now: datetime) -> list[str]:
    """Cancel runs: queued ones at once, all by one statement, others by asking; return those that are asked."""
    outcome = Outcome(Status.CANCELLED, Reason.REQUESTED)
    queued = [one for one in found if one.status is Status.QUEUED]
    finish_all(db, [runs.End(one.id, outcome, Status.QUEUED, now) for one in queued], epoch=None, now=now)
    others = [one.id for one in found if one.status is not Status.QUEUED]
    return [run_id for run_id in others if not cancel(db, run_id, reason=Reason.REQUESTED, now=now)]
