"""A new version of the time zone data: future instants follow it, past ones stay as they were recorded (R-20)."""

from datetime import datetime

from rota.engine.fire import settle
from rota.engine.pause import end_pause_if_over, settle_pause
from rota.model.records import Job
from rota.rules.cursor import cursor_at, cursor_of
from rota.rules.instants import next_instant
from rota.rules.lull import has_waits
from rota.store import events, jobs
from rota.store.driver import Database

TZDATA_KEY = "tzdata"


def adopt_tzdata(db: Database, *, tzdata: str, now: datetime) -> int:
    """Close the spans of jobs in zones with rules and plan them anew, if the data changed; return how many."""
    row = db.row("meta_get", key=TZDATA_KEY)
    if row == (tzdata,):
        return 0
    db.execute("meta_set", key=TZDATA_KEY, value=tzdata)
    if row is None:
        return 0
    known = jobs.all_jobs(db)
    moved = [job for job in known if _follows_a_zone(job) and _replan(db, job.id, tzdata=tzdata, now=now)]
    for job in known:
        if not _follows_a_zone(job) and has_waits(job.spec.schedule) and job.next_for is not None:
            jobs.wait_until(db, job, cursor_of(job, job.next_for).next_at)
    events.note(db, "tzdata_changed", now=now, before=row[0], after=tzdata, jobs=len(moved))
    return len(moved)


def _follows_a_zone(job: Job) -> bool:
    return bool(job.spec.schedule.cron) and job.spec.schedule.timezone != "UTC"


def _replan(db: Database, job_id: str, *, tzdata: str, now: datetime) -> bool:
    end_pause_if_over(db, job_id, now=now)
    settle(db, job_id, now=now, closing=True)
    job = jobs.job_by_id(db, job_id)
    if job.paused_at is not None:
        job = settle_pause(db, job, now=now, closing=True)
    schedule = job.spec.schedule
    planned = (job.next_for or job.held_for) is not None
    after = max(now, jobs.accounted_until(db, job))
    following = next_instant(schedule, after=after, created_at=job.created_at) if planned else None
    cursor = cursor_at(schedule, following, name=job.name, created_at=job.created_at)
    return jobs.change_job(
        db,
        job,
        job.spec,
        source=job.source,
        retired_at=job.retired_at,
        used_up_at=job.used_up_at,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        tzdata=tzdata,
        now=now,
    )
