"""When a job fires next, or why it does not, in words."""

from collections.abc import Sequence
from datetime import datetime

from rota.model.durations import say_duration
from rota.model.records import Job, Run
from rota.model.states import Trigger
from rota.rules.ansi import plain
from rota.rules.coming import NOTICED, coming_fires
from rota.rules.lull import has_lulls
from rota.rules.lull_words import say_deferred
from rota.rules.making_words import say_provisional
from rota.rules.times import from_now, full_time


def next_fire(job: Job, *, now: datetime, unfinished: Sequence[Run] = ()) -> str:
    """Return when the job fires next, or why it does not."""
    schedule = job.spec.schedule
    if job.provisional_at is not None and job.retired_at is None:
        return say_provisional(job, now=now)
    if job.paused_at is not None and job.schedules:
        return _paused(job, now)
    if job.next_at is not None and has_lulls(schedule):
        return _next_running(job, now)
    if job.next_at is not None:
        at = full_time(job.next_at, schedule.timezone, now=now)
        due = "due since" if now - job.next_at > NOTICED else "next"
        return f"{due} {at} ({schedule.timezone}), {from_now(job.next_at, now)}"
    return _no_next(job, unfinished)


def _next_running(job: Job, now: datetime) -> str:
    """Return when a job whose instants do not all run does so next."""
    tz = job.spec.schedule.timezone
    fire = next(iter(coming_fires(job, n=1)), None)
    if fire is None:
        return "no next: quiet hours and `except` leave none of the coming instants"
    due = "due since" if now - fire.at > NOTICED else "next"
    return f"{due} {full_time(fire.at, tz, now=now)} ({tz}), {from_now(fire.at, now)}{say_deferred(fire, tz, now=now)}"


def _paused(job: Job, now: datetime) -> str:
    tz = job.spec.schedule.timezone
    until = f" until {full_time(job.paused_until, tz, now=now)} ({tz})" if job.paused_until else ""
    reason = f": {plain(job.pause_reason)}" if job.pause_reason else ""
    if job.paused_until is not None and job.paused_until <= now:
        return f"no next yet: the pause{until} is over; a scheduler goes on from there as soon as it runs"
    since = full_time(job.paused_at, tz, now=now) if job.paused_at else ""
    return f"no next: the job is paused since {since}{until}{reason}; let it go with `rota resume {job.name}`"


def _no_next(job: Job, unfinished: Sequence[Run]) -> str:
    schedule = job.spec.schedule
    if job.retired_at is not None:
        return "no next: the job is retired, its file no longer has it"
    if not job.enabled:
        return "no next: the job is disabled (`enabled: false`)"
    if job.used_up_at is not None:
        return "no next: the job was to run once, and its one time is over"
    if schedule.manual:
        return "no next: the job has no schedule, it is started by hand"
    if schedule.reboot:
        return "next at the next boot of the machine"
    scheduled = [run for run in unfinished if run.trigger in (Trigger.SCHEDULE, Trigger.RETRY)]
    if scheduled and job.interval is not None and schedule.follows_runs:
        return f"next {say_duration(job.interval)} after {scheduled[-1].handle} is finished"
    if schedule.by_mode is not None and job.interval is None:
        return f"no next while {job.mode}: the interval is never in this mode; `rota touch` makes it active"
    if scheduled:
        return f"no next until {scheduled[-1].handle} is finished"
    return "no next: the schedule has ended" if schedule.end_at else "no next: the schedule has no further instant"
