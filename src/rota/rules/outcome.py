"""What follows an outcome: status and reason, retry, recovery after a crash."""

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

from rota.model.clock import MILLISECOND, say_duration
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.spec import Jitter, JobSpec, Kind, OnRestart, OverlapPolicy, RepeatedFailure, Retry
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


NO_WAIT = timedelta()
FIRST_HOLD = timedelta(minutes=1)
ONE_ATTEMPT = "one_attempt"
"""The key of a run's decisions that says: this start is not retried (R-31)."""
OUTAGES = 24
"""How often a chain is tried again after outages of its provider: by the pauses of the hold that is most of a day."""
NEVER = {
    Reason.UNKILLABLE: "its processes are still alive, and a second run beside them would do harm",
    Reason.MEMBERS_FAILED: "a group is not retried as a whole; its members were, as each of their jobs says",
}
"""Failures that are never tried again by themselves, and why."""


def next_attempt(
    retry: Retry,
    outcome: Outcome,
    *,
    attempt: int,
    run_id: str,
    finished_at: datetime,
    asked: Reason | None = None,
    outages: int = 0,
) -> datetime | None:
    """Return when a run that ended so is tried again, None for never.

    `asked`: why somebody wanted it stopped. `outages`: how many earlier runs of its chain ended by one.
    """
    if outcome.status is not Status.FAILED:
        return None
    if not_retried(retry, outcome.reason, attempt=attempt, asked=asked, outages=outages) is not None:
        return None
    outage = outcome.reason is Reason.OUTAGE  # the hold of the provider grows, the pause of the run need not
    return finished_at + backoff(retry, attempt=1 if outage else max(attempt - outages, 1), run_id=run_id)


def not_retried(
    retry: Retry,
    reason: Reason | None,
    *,
    attempt: int,
    asked: str | None = None,
    one_attempt: bool = False,
    outages: int = 0,
) -> str | None:
    """Return why a failed run is not tried again, None if it is. An outage uses up no attempt."""
    if one_attempt:
        return "`rota run` makes one attempt (`--retry` keeps the policy of the job)"
    if asked is not None:
        return f"somebody wanted it stopped ({asked})"
    if reason in NEVER:
        return NEVER[reason]
    if reason is Reason.OUTAGE:
        return f"its provider was out {OUTAGES + 1} times in a row" if outages >= OUTAGES else None
    attempt -= outages
    if retry.max_attempts == 1:
        return "the job does not retry (`retry: false`)"
    if attempt >= retry.max_attempts:
        return f"attempt {attempt} of {retry.max_attempts} was the last"
    return None


def backoff(retry: Retry, *, attempt: int, run_id: str) -> timedelta:
    """Return how long to wait after this failed attempt: whole milliseconds, jitter included, never more than `max`.

    >>> backoff(Retry(), attempt=2, run_id="any")
    datetime.timedelta(seconds=20)
    """
    limit = retry.max.total_seconds()
    seconds = min(retry.backoff.total_seconds() * retry.factor ** (attempt - 1), limit)
    wait = timedelta(seconds=seconds) // MILLISECOND * MILLISECOND
    return wait + _jitter(retry.jitter, wait, room=retry.max - wait, run_id=run_id)


def _jitter(jitter: Jitter | None, wait: timedelta, *, room: timedelta, run_id: str) -> timedelta:
    """Return what a run waits longer, chosen by its identifier: runs that failed together come back apart."""
    if jitter is None:
        return NO_WAIT
    up_to = jitter.up_to if jitter.up_to is not None else wait * ((jitter.percent or 0) / 100)
    choices = min(up_to, room) // MILLISECOND
    if choices <= 0:
        return NO_WAIT
    digest = hashlib.sha256(run_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % choices * MILLISECOND


def backing_off(repeated: RepeatedFailure | None, *, failures: int, finished_at: datetime) -> datetime | None:
    """Return until when a job's instants are held back after so many failed chains in a row, None for not at all.

    >>> backing_off(RepeatedFailure(after=2), failures=1, finished_at=datetime(2026, 1, 1)) is None
    True
    """
    if repeated is None or failures < repeated.after:
        return None
    doublings = min(failures - repeated.after, 32)  # far beyond any limit, and no number that overflows
    return finished_at + min(FIRST_HOLD * (1 << doublings), repeated.backoff_max)


def say_retry(retry: Retry) -> str:
    """Return a retry policy in words.

    >>> say_retry(Retry())
    '3 attempts, 10 s apart, ×2 up to 10 min'
    """
    if retry.max_attempts == 1:
        return "none"
    growing = f", ×{retry.factor:g} up to {say_duration(retry.max)}" if retry.factor > 1 else ""
    return f"{retry.max_attempts} attempts, {say_duration(retry.backoff)} apart{growing}"


class Recovery(StrEnum):
    """What a new process does with a run of a dead one."""

    REQUEUE = "requeue"
    FAIL_LOST = "fail_lost"
    ADOPT = "adopt"
    READ_OUTCOME = "read_outcome"
    STOP = "stop"
    FAIL_RESTARTED = "fail_restarted"


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A run of a dead process, and what is still to be found of it."""

    status: Status
    in_process: bool
    keeper_alive: bool
    outcome_left: bool
    losses: int
    on_restart: OnRestart


def decide_recovery(left: LeftBehind) -> Recovery:
    """Return what to do with a run that a dead process left behind."""
    if left.status is Status.DISPATCHED:
        return Recovery.FAIL_LOST if lost_too_often(left.losses) else Recovery.REQUEUE
    if left.in_process:
        return Recovery.FAIL_RESTARTED
    if left.outcome_left:
        return Recovery.READ_OUTCOME
    if left.keeper_alive:
        return Recovery.ADOPT if left.on_restart is OnRestart.ADOPT else Recovery.STOP
    return Recovery.FAIL_RESTARTED


def retry_after(header: str | None, *, date: str | None) -> float | None:
    """Return after how many seconds a server wants to be asked again, None where it does not say.

    A date counts from `date`, the answer's own Date: only the server's clock knows what it means.

    >>> retry_after("120", date=None)
    120.0
    >>> retry_after("Wed, 21 Oct 2026 07:28:00 GMT", date="Wed, 21 Oct 2026 07:27:30 GMT")
    30.0
    """
    text = (header or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:12])
    until, since = _instant(text), _instant(date)
    return None if until is None or since is None else max((until - since).total_seconds(), 0.0)


def _instant(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except (TypeError, ValueError):
        return None
    return None if found is None else found.replace(tzinfo=found.tzinfo or UTC)
