"""Who made a job and until when it lasts, in words."""

from datetime import datetime

from rota.model.records import Job
from rota.rules.times import full_time


def say_made(job: Job, *, now: datetime) -> str | None:
    """Return who made a job with the tools, when, in which run, and until when it lasts; None for others."""
    made, tz = job.made, job.spec.schedule.timezone
    if made is None:
        return None
    run = f" in run {made.run_id}" if made.run_id else ""
    until = f", lasts until {full_time(made.expires_at, tz, now=now)}" if made.expires_at else ""
    return f"by {made.by}{run}, {full_time(made.at, tz, now=now)} ({tz}), depth {made.depth}{until}"


def say_provisional(job: Job, *, now: datetime) -> str:
    """Return that a job waits for approval, and since when."""
    since = full_time(job.provisional_at, job.spec.schedule.timezone, now=now) if job.provisional_at else ""
    return f"no next: it waits for approval since {since}; look at it with `rota approve {job.name}`"
