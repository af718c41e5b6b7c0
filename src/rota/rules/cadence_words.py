"""Modes and the shared poll in the words of `explain` (R-16, R-18)."""

from datetime import datetime, timedelta

from rota.model.clock import MILLISECOND
from rota.model.durations import say_duration
from rota.model.records import Job, Run
from rota.model.spec import Mode
from rota.model.states import Reason
from rota.rules.times import briefly, day_time

WHY = {
    Mode.ACTIVE: "something happened within 10 min",
    Mode.IDLE: "the last activity was 10 min to 1 h ago",
    Mode.DORMANT: "nothing happened for an hour, or quiet hours",
}


def say_every(interval: timedelta | None) -> str:
    """Return how often something comes in the present mode."""
    return "never" if interval is None else f"every {say_duration(interval)}"


def say_mode_of_run(run: Run) -> str | None:
    """Return the mode that an instant was planned in, None where it did not depend on one."""
    told = run.decisions.get("mode")
    if told is None:
        return None
    interval = run.decisions.get("every_ms")
    return f"{told} at that time: {say_every(None if interval is None else int(interval) * MILLISECOND)}"


def say_mode_of_job(job: Job) -> str | None:
    """Return the mode that a job is planned in now and why, None where it does not depend on one."""
    if job.mode is None:
        return None
    asked = ", as the polled server asked" if job.suggested is not None else ""
    return f"{job.mode} ({WHY[job.mode]}): {say_every(job.interval)}{asked}"


def say_poll_of_run(run: Run, *, tz: str, now: datetime) -> str:
    """Return what the shared poll had to do with a run that needs it."""
    if run.reason is Reason.POLL_FAILED:
        return "failed, so nothing was started"
    told = run.decisions.get("poll", {}).get("at")
    if told is None:
        return "not asked" if run.status.final else "a result is needed before it starts"
    at = datetime.fromisoformat(told)
    age = f", {briefly(run.started_at - at)} old at the start" if run.started_at is not None else ""
    return f"result of {day_time(at, tz, now=now, seconds=True)}{age}"
