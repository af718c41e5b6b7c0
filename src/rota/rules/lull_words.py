"""Quiet hours and excluded dates as people read them, of a job and of a run (R-17)."""

from datetime import datetime

from rota.model.records import Job, Run
from rota.model.spec import QuietPolicy, Schedule
from rota.model.states import Reason
from rota.rules.coming import Fire
from rota.rules.exclusion import excluded_until, next_excluded
from rota.rules.quiet import quiet_until, say_quiet
from rota.rules.times import day_time, full_time
from rota.rules.timezone import zone

DATES_SHOWN = 5


def say_quiet_now(schedule: Schedule, *, now: datetime) -> str | None:
    """Return the quiet hours of a schedule and whether they are on, None where it has none."""
    quiet = schedule.quiet
    if quiet is None:
        return None
    until = quiet_until(quiet, now)
    on = "open" if until is None else f"until {day_time(until, quiet.timezone, now=now)}"
    return f"{say_quiet(quiet)} → {on}"


def say_quiet_of_job(job: Job, *, now: datetime) -> str | None:
    """Return the quiet hours of a job, and which instant of it waits for their end."""
    told = say_quiet_now(job.spec.schedule, now=now)
    if told is None or job.next_for is None or job.next_for > now:
        return told
    quiet = job.spec.schedule.quiet
    if quiet is None or quiet.policy is QuietPolicy.DORMANT or quiet_until(quiet, now) is None:
        return told
    waits = "waits for that" if quiet.policy is QuietPolicy.DEFER else "is skipped then"
    return f"{told}; {day_time(job.next_for, job.spec.schedule.timezone, now=now)} {waits}"


def say_excluded(schedule: Schedule, *, now: datetime) -> str | None:
    """Return the dates without runs, and the next of them; None where there are none."""
    dates = schedule.excluded
    if not dates:
        return None
    more = f" and {len(dates) - DATES_SHOWN} more" if len(dates) > DATES_SHOWN else ""
    told = f"{', '.join(dates[:DATES_SHOWN])}{more}"
    if excluded_until(schedule, now) is not None:
        return f"{told} → today"
    coming = next_excluded(schedule, now)
    return told if coming is None else f"{told}; next {coming.astimezone(zone(schedule.timezone)).date()}"


def say_lull_of_run(run: Run, schedule: Schedule, *, now: datetime) -> str | None:
    """Return what quiet hours or excluded dates did to a run or row, None for nothing."""
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


def say_deferred(fire: Fire, tz: str, *, now: datetime) -> str:
    """Return that a fire waits for quiet hours to end, empty if it does not."""
    return f", deferred from {full_time(fire.nominal, tz, now=now)} by quiet hours" if fire.deferred else ""
