"""Sentences about schedules, blackouts and the next fire."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.amounts import listed
from rota.model.clock import MILLISECOND, say_duration
from rota.model.records import Job, Run
from rota.model.spec import Mode, QuietPolicy, Schedule
from rota.model.states import Reason, Trigger
from rota.rules.schedule.blackouts import excluded_until, has_blackouts, next_excluded, quiet_until, say_quiet
from rota.rules.schedule.preview import NOTICED, UpcomingFire, coming_fires
from rota.rules.schedule.timezone import zone
from rota.text.ansi import plain
from rota.text.format import briefly, day_time, from_now, full_time
from rota.text.jobs import say_provisional

DATES_SHOWN = 5


def say_quiet_now(schedule: Schedule, *, now: datetime) -> str | None:
    """Return the quiet hours of a schedule and whether they are on, None if it has none."""
    quiet = schedule.quiet
    if quiet is None:
        return None
    until = quiet_until(quiet, now)
    on = "open" if until is None else f"until {day_time(until, quiet.timezone, now=now)}"
    return f"{say_quiet(quiet)} → {on}"


def say_quiet_of_job(job: Job, *, now: datetime) -> str | None:
    """Return the quiet hours of a job, and the instant that waits for their end."""
    text = say_quiet_now(job.spec.schedule, now=now)
    if text is None or job.next_for is None or job.next_for > now:
        return text
    quiet = job.spec.schedule.quiet
    if quiet is None or quiet.policy is QuietPolicy.DORMANT or quiet_until(quiet, now) is None:
        return text
    waits = "waits for that" if quiet.policy is QuietPolicy.DEFER else "is skipped then"
    return f"{text}; {day_time(job.next_for, job.spec.schedule.timezone, now=now)} {waits}"


def say_excluded(schedule: Schedule, *, now: datetime) -> str | None:
    """Return the dates without runs, and the next of them; None if there are none."""
    dates = schedule.excluded
    if not dates:
        return None
    text = f"{listed(dates, DATES_SHOWN)}"
    if excluded_until(schedule, now) is not None:
        return f"{text} → today"
    coming = next_excluded(schedule, now)
    return text if coming is None else f"{text}; next {coming.astimezone(zone(schedule.timezone)).date()}"


def say_lull_of_run(run: Run, schedule: Schedule, *, now: datetime) -> str | None:
    """Return the effect of quiet hours or excluded dates on a run or row, None for nothing."""
    if run.reason is Reason.EXCLUDED and run.scheduled_for is not None:
        day = run.scheduled_for.astimezone(zone(schedule.timezone)).date()
        return f"{day} is excluded by `except`"
    quiet, until = schedule.quiet, run.decisions.get("quiet_until")
    if quiet is None or until is None:
        return None
    end = day_time(datetime.fromisoformat(str(until)), quiet.timezone, now=now)
    if run.reason is not Reason.QUIET_HOURS:
        return f"{say_quiet(quiet)}: waited until {end}"
    return f"{say_quiet(quiet)}: not run; they ended {end}"


def say_deferred(fire: UpcomingFire, tz: str, *, now: datetime) -> str:
    """Return the clause about a fire that quiet hours defer, empty for others."""
    return f", deferred from {full_time(fire.nominal, tz, now=now)} by quiet hours" if fire.deferred else ""


def next_fire(job: Job, *, now: datetime, unfinished: Sequence[Run] = ()) -> str:
    """Return the next fire of a job, or why there is none."""
    schedule = job.spec.schedule
    if job.provisional_at is not None and job.retired_at is None:
        return say_provisional(job, now=now)
    if job.paused_at is not None and job.schedules:
        return _paused(job, now)
    if job.next_at is not None and has_blackouts(schedule):
        return _next_running(job, now)
    if job.next_at is not None:
        at = full_time(job.next_at, schedule.timezone, now=now)
        due = "due since" if now - job.next_at > NOTICED else "next"
        return f"{due} {at} ({schedule.timezone}), {from_now(job.next_at, now)}"
    return _no_next(job, unfinished)


def _next_running(job: Job, now: datetime) -> str:
    tz = job.spec.schedule.timezone
    fire = next(iter(coming_fires(job, n=1)), None)
    if fire is None:
        return "no next fire: quiet hours and `except` exclude all future instants"
    due = "due since" if now - fire.at > NOTICED else "next"
    return f"{due} {full_time(fire.at, tz, now=now)} ({tz}), {from_now(fire.at, now)}{say_deferred(fire, tz, now=now)}"


def _paused(job: Job, now: datetime) -> str:
    tz = job.spec.schedule.timezone
    until = f" until {full_time(job.paused_until, tz, now=now)} ({tz})" if job.paused_until else ""
    reason = f": {plain(job.pause_reason)}" if job.pause_reason else ""
    if job.paused_until is not None and job.paused_until <= now:
        return f"no next fire yet: the pause{until} has ended; a running scheduler continues from there"
    since = full_time(job.paused_at, tz, now=now) if job.paused_at else ""
    return f"no next fire: the job is paused since {since}{until}{reason}; resume it with `rota resume {job.name}`"


def _no_next(job: Job, unfinished: Sequence[Run]) -> str:
    schedule = job.spec.schedule
    if job.retired_at is not None:
        return "no next fire: the job is retired, its file no longer has it"
    if not job.enabled:
        return "no next fire: the job is disabled (`enabled: false`)"
    if job.used_up_at is not None:
        return "no next fire: the job ran once, or its time has passed"
    if schedule.manual:
        return "no next fire: the job has no schedule; start it by hand"
    if schedule.reboot:
        return "next at the next boot of the machine"
    scheduled = [run for run in unfinished if run.trigger in (Trigger.SCHEDULE, Trigger.RETRY, Trigger.ANSWER)]
    if scheduled and job.interval is not None and schedule.follows_runs:
        return f"next {say_duration(job.interval)} after {scheduled[-1].handle} is finished"
    if schedule.by_mode is not None and job.interval is None:
        return f"no next fire while {job.mode}: the interval is never in this mode; `rota touch` makes it active"
    if scheduled:
        return f"no next fire until {scheduled[-1].handle} is finished"
    return (
        "no next fire: the schedule has ended"
        if schedule.end_at
        else "no next fire: the schedule has no further instant"
    )


WHY = {
    Mode.ACTIVE: "activity within 10 min",
    Mode.IDLE: "the last activity was 10 min to 1 h ago",
    Mode.DORMANT: "no activity for an hour, or quiet hours",
}


def say_every(interval: timedelta | None) -> str:
    """Return an interval in words."""
    return "never" if interval is None else f"every {say_duration(interval)}"


def say_mode_of_run(run: Run) -> str | None:
    """Return the mode in which an instant was planned, None if it does not depend on one."""
    mode = run.decisions.get("mode")
    if mode is None:
        return None
    interval = run.decisions.get("every_ms")
    return f"{mode} at that time: {say_every(None if interval is None else int(interval) * MILLISECOND)}"


def say_mode_of_job(job: Job) -> str | None:
    """Return the current mode of a job and its reason, None if it does not depend on one."""
    if job.mode is None:
        return None
    asked = ", as the polled server requested" if job.suggested is not None else ""
    return f"{job.mode} ({WHY[job.mode]}): {say_every(job.interval)}{asked}"


def say_poll_of_run(run: Run, *, tz: str, now: datetime) -> str:
    """Return the result of the shared poll for a run that needs it."""
    if run.reason is Reason.POLL_FAILED:
        return "failed, so no run started"
    polled_at = run.decisions.get("poll", {}).get("at")
    if polled_at is None:
        return "not needed" if run.status.final else "a result is needed before it starts"
    at = datetime.fromisoformat(polled_at)
    age = f", {briefly(run.started_at - at)} old at the start" if run.started_at is not None else ""
    return f"result of {day_time(at, tz, now=now, seconds=True)}{age}"
