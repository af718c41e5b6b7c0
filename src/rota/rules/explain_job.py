"""How a job stands, told from stored data alone: its state, schedule and next fire. Pure: records in, lines out."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.records import Job, Run
from rota.model.states import Status
from rota.rules.brief_words import say_brief
from rota.rules.cadence_words import say_mode_of_job
from rota.rules.explain import Line
from rota.rules.instants import explain_schedule
from rota.rules.lull_words import say_excluded, say_quiet_of_job
from rota.rules.making_words import say_made
from rota.rules.next_words import next_fire
from rota.rules.times import clock_time, day_time


def explain_job(job: Job, *, state: str, unfinished: Sequence[Run], now: datetime) -> list[Line]:
    """Return a job's own lines: its state, its schedule and when it fires next or why not."""
    running = [run.handle for run in unfinished if run.status is not Status.QUEUED]
    queued = [run.handle for run in unfinished if run.status is Status.QUEUED]
    told = [
        *([f"running {', '.join(running)}"] if running else [state]),
        *([f"queued {', '.join(queued)}"] if queued else []),
        *_failures(job, now),
    ]
    since = f"version {job.version} since {clock_or_day(job.updated_at, job, now)}"
    mode, made = say_mode_of_job(job), say_made(job, now=now)
    return [
        Line("state", ", ".join(told)),
        Line("schedule", f"{explain_schedule(job.spec.schedule)}; {since}"),
        *([] if mode is None else [Line("mode", mode)]),
        *_lulls_of_job(job, now),
        *([] if made is None else [Line("made", made)]),
        *_given(job),
        Line("next", next_fire(job, now=now, unfinished=unfinished).removeprefix("next ")),
    ]


def _given(job: Job) -> list[Line]:
    """Return what the runs of an agent job are given beyond their task."""
    agent = job.spec.work.agent
    return [] if agent is None else [Line(label, text) for label, text in say_brief(agent)]


def _lulls_of_job(job: Job, now: datetime) -> list[Line]:
    quiet, dates = say_quiet_of_job(job, now=now), say_excluded(job.spec.schedule, now=now)
    told = [("quiet hours", quiet), ("except", dates)]
    return [Line(label, text) for label, text in told if text is not None]


def _failures(job: Job, now: datetime) -> list[str]:
    """Return that a job keeps failing, and until when it is held back for that."""
    until, tz = job.backing_off_until, job.spec.schedule.timezone
    if job.spec.on_repeated_failure is not None and until is not None and now < until:
        return [f"held back until {day_time(until, tz, now=now, seconds=True)} after {job.failures} failures in a row"]
    return [f"{job.failures} failures in a row"] if job.failures > 1 else []


def clock_or_day(at: datetime, job: Job, now: datetime) -> str:
    """Return an instant in the job's zone: today's with seconds, others with their day."""
    tz = job.spec.schedule.timezone
    if now - at < timedelta(hours=12):
        return clock_time(at, tz)
    return day_time(at, tz, now=now)
