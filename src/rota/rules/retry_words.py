"""Retries in words, for explain and for lists."""

from datetime import datetime

from rota.model.clock import MILLISECOND
from rota.model.durations import say_duration
from rota.model.records import Run
from rota.model.spec import JobSpec
from rota.model.states import Status, WaitingFor
from rota.rules.retry import ONE_ATTEMPT, not_retried
from rota.rules.times import clock_time, day_time


def outages_before(run: Run) -> int:
    """Return how many earlier runs of a run's chain ended by an outage of their provider: they use up no attempt."""
    return int(run.decisions.get("retry", {}).get("outages", 0))


def attempts_of(run: Run, spec: JobSpec) -> int:
    """Return how many attempts the chain of a run has at most."""
    if run.decisions.get(ONE_ATTEMPT):
        return 1
    return max(spec.retry.max_attempts + outages_before(run), run.attempt)


def say_attempt(run: Run, spec: JobSpec) -> str:
    """Return which attempt a run is: `attempt 2 of 3`; empty where there is only one."""
    most = attempts_of(run, spec)
    return f"attempt {run.attempt} of {most}" if most > 1 else ""


def say_retry_due(run: Run, spec: JobSpec, *, tz: str, now: datetime) -> str:
    """Return why a retry is there."""
    told = run.decisions.get("retry", {})
    waited = say_duration(int(told.get("backoff_ms", 0)) * MILLISECOND)
    reason = f" {told['reason']}" if told.get("reason") else ""
    due = f"; its instant was {day_time(run.scheduled_for, tz, now=now, seconds=True)}" if run.scheduled_for else ""
    return f"{say_attempt(run, spec)}, {waited} after {told.get('after', 'the one before')} FAILED{reason}{due}"


def say_by_hand(run: Run) -> str:
    """Return what a start by hand was: of the job, or of a run once more."""
    retried = run.decisions.get("retried")
    forced = ", with --force" if run.forced else ""
    by = run.decisions.get("by")
    who = "by hand" if by is None else f"by {by['maker']}" + (f" ({by['run']})" if "run" in by else "")
    told = f"{retried['run']} ({retried['status']}) retried by hand{forced}" if retried else f"started {who}{forced}"
    replaced = run.decisions.get("replaced")
    return f"{told}, in place of the retry {', '.join(replaced)}" if replaced else told


def say_what_follows(run: Run, spec: JobSpec, *, retried_as: Run | None, tz: str, now: datetime) -> str:
    """Return what a failure led to: its retry, or why there is none; empty for any other end."""
    if run.status is not Status.FAILED:
        return ""
    if retried_as is None:
        asked = None if run.cancel_requested_at is None else "rota cancel, or a run that took its place"
        why = not_retried(
            spec.retry,
            run.reason,
            attempt=run.attempt,
            asked=asked,
            one_attempt=bool(run.decisions.get(ONE_ATTEMPT)),
            outages=outages_before(run),
        )
        return f"not retried: {why}" if why else "not retried"
    at = retried_as.started_at or retried_as.not_before or retried_as.created_at
    return f"retried as {retried_as.handle} at {day_time(at, tz, now=now, seconds=True)}"


def say_retrying(run: Run, spec: JobSpec) -> str:
    """Return that a failed run is about to be tried again: `retrying, attempt 2 of 3 at 12:03:20`."""
    when = f" at {clock_time(run.not_before, spec.schedule.timezone)}" if run.not_before else ""
    soon = (
        "" if run.waiting_for is WaitingFor.BACKOFF or run.status is not Status.QUEUED else " as soon as it may start"
    )
    return f"retrying, {say_attempt(run, spec)}{when or soon}"
