"""What an ending means, once it is known who asked for it."""

from dataclasses import replace
from datetime import datetime

from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.spec import JobSpec, Kind, OverlapPolicy
from rota.model.states import Reason, Status, Trigger

LOSSES_ALLOWED = 2


def settle(outcome: Outcome, asked: Reason | None) -> Outcome:
    """Return the outcome to store: a run that was stopped because somebody asked is CANCELLED (R-08)."""
    stopped = outcome.status is Status.FAILED and outcome.reason is Reason.SHUTDOWN
    if stopped and asked is not None:
        outcome = replace(outcome, status=Status.CANCELLED, reason=asked, error=None)
    error, summary = cut(outcome.error, ERROR_LIMIT), cut(outcome.summary, SUMMARY_LIMIT)
    if error is outcome.error and summary is outcome.summary:
        return outcome  # as a rule: a copy of each would take a tenth of the writer's time
    return replace(outcome, error=error, summary=summary)


def is_plain(outcome: Outcome) -> bool:
    """Tell whether what is stored of an end depends on nothing else: on no wish to stop it, on no shared state."""
    stopped = outcome.status is Status.FAILED and outcome.reason is Reason.SHUTDOWN
    return not stopped and not outcome.scheduler_state


def ends_alone(outcome: Outcome, spec: JobSpec, trigger: Trigger) -> bool:
    """Tell whether an end concerns nobody else, as far as its run and its definition say.

    It moves no instant and counts no failure, nobody is told of it, and no start that overlap judges waits for it.
    """
    own = trigger is Trigger.MANUAL and spec.work.kind not in (Kind.GROUP, Kind.POLL)
    heeded = spec.notifies or spec.overlap.policy is not OverlapPolicy.ALLOW
    return outcome.status is Status.COMPLETED and own and not heeded and outcome.state is None


def ended_at(outcome: Outcome, now: datetime) -> datetime:
    """Return when a run ended: as its keeper saw it, also if nobody recorded it then (R-23); never in the future."""
    return now if outcome.finished_at is None else min(outcome.finished_at, now)


def lost_too_often(losses: int) -> bool:
    """Tell whether a dispatched run whose worker was lost once more must fail (R-01: the third loss)."""
    return losses >= LOSSES_ALLOWED
