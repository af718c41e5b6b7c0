"""Retire: end a job's definition, with everything that was due under it accounted for (R-14)."""

from datetime import datetime

from rota.engine.clock import tzdata_version
from rota.engine.fire import settle
from rota.engine.pause import end_pause_if_over, settle_pause
from rota.engine.poll import give_up
from rota.engine.record import finish_all
from rota.model.records import Job
from rota.store import events, jobs, making, polls
from rota.store.driver import Database


def account_for(db: Database, job_id: str, *, now: datetime, closing: bool) -> Job:
    """Account for what was due under the old definition, under it; return the job as it is then.

    `closing`: its schedule ends with it, so that nothing goes on waiting for quiet hours to end (R-17).
    """
    end_pause_if_over(db, job_id, now=now)
    settle(db, job_id, now=now, closing=closing)
    job = jobs.job_by_id(db, job_id)
    return job if job.paused_at is None else settle_pause(db, job, now=now, closing=closing)


def retire(db: Database, job_id: str, *, now: datetime) -> Job:
    """Retire a job: no more fires, its runs go on; whatever waited for approval does not any more."""
    job = account_for(db, job_id, now=now, closing=True)
    if job.provisional_at is not None:
        making.set_provisional(db, job_id, None)
    jobs.change_job(
        db,
        job,
        job.spec,
        source=job.source,
        retired_at=now,
        used_up_at=job.used_up_at,
        next_for=None,
        next_at=None,
        tzdata=tzdata_version(),
        now=now,
    )
    if job.name == polls.POLL:
        finish_all(db, give_up(db, "the file no longer has a `poll:`", now=now), epoch=None, now=now)
    return job


def retire_expired(db: Database, *, now: datetime) -> list[str]:
    """Retire what agents made and whose time is over; return the names."""
    retired = []
    for job_id in making.expired_jobs(db, now):
        if jobs.job_by_id(db, job_id).retired_at is not None:
            continue  # another scheduler was faster
        job = retire(db, job_id, now=now)
        events.note(db, "expired", now=now, job_id=job_id, made_by=job.made.by if job.made else "")
        retired.append(job.name)
    return retired
