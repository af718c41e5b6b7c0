"""Consequences of an outcome: status and reason, retry, recovery after a crash."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from rota.model.clock import MILLISECOND, hashed_part, say_duration
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.spec import Jitter, JobSpec, Kind, OnRestart, OverlapPolicy, RepeatedFailure, Retry
from rota.model.states import Reason, Status, Trigger

LOSSES_ALLOWED = 2


def settle(outcome: Outcome, asked: Reason | None) -> Outcome:
    """Return the outcome to store: a run that was stopped on request is CANCELLED."""
    stopped = outcome.status is Status.FAILED and outcome.reason is Reason.SHUTDOWN
    if stopped and asked is not None:
        outcome = replace(outcome, status=Status.CANCELLED, reason=asked, error=None)
    error, summary = cut(outcome.error, ERROR_LIMIT), cut(outcome.summary, SUMMARY_LIMIT)
    if error is outcome.error and summary is outcome.summary:
        return outcome  # the usual case: a copy would take a tenth of the writer's time
    return replace(outcome, error=error, summary=summary)


def is_plain(outcome: Outcome) -> bool:
    """Return whether an outcome depends on no request to stop and no shared state."""
    stopped = outcome.status is Status.FAILED and outcome.reason is Reason.SHUTDOWN
    return not stopped and not outcome.scheduler_state


def ends_alone(outcome: Outcome, spec: JobSpec, trigger: Trigger) -> bool:
    """Return whether an end affects nothing else, as far as its run and its definition show.

    It moves no instant, counts no failure, has no notification, and no start waits for it by overlap.
    """
    own = trigger is Trigger.MANUAL and spec.work.kind not in (Kind.GROUP, Kind.POLL)
    heeded = spec.reports or spec.overlap.policy is not OverlapPolicy.ALLOW
    return outcome.status is Status.COMPLETED and own and not heeded and outcome.state is None


def ended_at(outcome: Outcome, now: datetime) -> datetime:
    """Return the end of a run as its keeper saw it, never in the future."""
    return now if outcome.finished_at is None else min(outcome.finished_at, now)


def lost_too_often(losses: int) -> bool:
    """Return whether a dispatched run fails at the loss of its worker: at the third loss."""
    return losses >= LOSSES_ALLOWED


NO_WAIT = timedelta()
FIRST_HOLD = timedelta(minutes=1)
ONE_ATTEMPT = "one_attempt"
"""The key of a run's decisions for a start without retries."""
OUTAGES = 24
"""The number of retries after outages of a provider: with the pauses, most of a day."""
NEVER = {
    Reason.UNKILLABLE: "its processes are still alive, and a second run could conflict with them",
    Reason.MEMBERS_FAILED: "a group is not retried as a whole; its members follow the policies of their jobs",
}
"""Failures that are never retried automatically, and why."""


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
    """Return the time of the next attempt after an outcome, None for never.

    `asked`: the reason of a request to stop. `outages`: the number of earlier outages in its chain.
    """
    if outcome.status is not Status.FAILED:
        return None
    if not_retried(retry, outcome.reason, attempt=attempt, asked=asked, outages=outages) is not None:
        return None
    outage = outcome.reason is Reason.OUTAGE  # the limit of the provider grows, so the pause of the run need not
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
    """Return why a failed run is not retried, None if it is. An outage uses up no attempt."""
    if one_attempt:
        return "`rota run` makes one attempt (`--retry` keeps the policy of the job)"
    if asked is not None:
        return f"it was stopped on request ({asked})"
    if reason in NEVER:
        return NEVER[reason]
    if reason is Reason.OUTAGE:
        return f"its provider was unavailable {OUTAGES + 1} times in a row" if outages >= OUTAGES else None
    attempt -= outages
    if retry.max_attempts == 1:
        return "the job does not retry (`retry: false`)"
    if attempt >= retry.max_attempts:
        return f"attempt {attempt} of {retry.max_attempts} was the last"
    return None


def backoff(retry: Retry, *, attempt: int, run_id: str) -> timedelta:
    """Return the wait after this failed attempt: whole milliseconds, with jitter, at most `max`.

    >>> backoff(Retry(), attempt=2, run_id="any")
    datetime.timedelta(seconds=20)
    """
    limit = retry.max.total_seconds()
    seconds = min(retry.backoff.total_seconds() * retry.factor ** (attempt - 1), limit)
    wait = timedelta(seconds=seconds) // MILLISECOND * MILLISECOND
    return wait + _jitter(retry.jitter, wait, room=retry.max - wait, run_id=run_id)


def _jitter(jitter: Jitter | None, wait: timedelta, *, room: timedelta, run_id: str) -> timedelta:
    """Return an extra wait by the run's id: runs that failed together retry at different times."""
    if jitter is None:
        return NO_WAIT
    up_to = jitter.up_to if jitter.up_to is not None else wait * ((jitter.percent or 0) / 100)
    return hashed_part(min(up_to, room), run_id)


def backing_off(repeated: RepeatedFailure | None, *, failures: int, finished_at: datetime) -> datetime | None:
    """Return the end of the back-off after this many failed chains in a row, None for none.

    >>> backing_off(RepeatedFailure(after=2), failures=1, finished_at=datetime(2026, 1, 1)) is None
    True
    """
    if repeated is None or failures < repeated.after:
        return None
    doublings = min(failures - repeated.after, 32)  # above any limit, and no overflow
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
    """The handling of a run of a dead process."""

    REQUEUE = "requeue"
    FAIL_LOST = "fail_lost"
    ADOPT = "adopt"
    READ_OUTCOME = "read_outcome"
    STOP = "stop"
    FAIL_RESTARTED = "fail_restarted"


class LeftBehind(Struct, frozen=True):
    """A run of a dead process and its remains."""

    status: Status
    in_process: bool
    keeper_alive: bool
    outcome_left: bool
    losses: int
    on_restart: OnRestart


def decide_recovery(left: LeftBehind) -> Recovery:
    """Return the handling of a run of a dead process."""
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
    """Return the seconds of a Retry-After header, or None.

    A date counts from `date`, the Date header of the same answer, as both come from the server's clock.

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
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text) if text else None
    except (TypeError, ValueError):
        return None
    return None if at is None else at.replace(tzinfo=at.tzinfo or UTC)
