"""Whether a failed run is tried again and when, and how long a job that keeps failing is held back (DEC-007)."""

import hashlib
from datetime import datetime, timedelta

from rota.model.clock import MILLISECOND
from rota.model.durations import say_duration
from rota.model.records import Outcome
from rota.model.spec import Jitter, RepeatedFailure, Retry
from rota.model.states import Reason, Status

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
