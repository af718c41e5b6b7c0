"""Jobs at boot (`@reboot`): once for each boot of the machine, by the first process that schedules after it (R-05)."""

from datetime import datetime

from rota.engine.enqueue import active_for, enqueue, skip
from rota.engine.fire import Fired
from rota.model.records import Job
from rota.model.states import Reason, Trigger
from rota.rules.overlap import Refuse, judge
from rota.store import jobs
from rota.store.driver import Database


def fire_at_boot(db: Database, *, boot: str, now: datetime, booted_at: datetime | None = None) -> list[Fired]:
    """Fire the jobs at boot that have not run for this one; each has one row for it, a paused one a skipped one.

    `booted_at`: leave out jobs that were made later, where another machine made them.
    """
    found = [jobs.job_by_id(db, job_id) for job_id in jobs.not_booted(db, boot)]
    found = [job for job in found if booted_at is None or job.created_at < booted_at]
    return [_fire(db, job, boot=boot, now=now) for job in found]


def _fire(db: Database, job: Job, *, boot: str, now: datetime) -> Fired:
    jobs.set_booted(db, job.id, boot)
    verdict = judge(job.spec.overlap, active_for(db, job))
    if job.paused_at is not None:
        why = f"paused: {job.pause_reason}" if job.pause_reason else None
        return _skip(db, job, Reason.PAUSED, boot=boot, now=now, error=why)
    if isinstance(verdict, Refuse):
        error = f"{verdict.blocking.handle} was not finished"
        return _skip(db, job, verdict.reason, boot=boot, now=now, error=error)
    born = enqueue(
        db, job, verdict, trigger=Trigger.SCHEDULE, now=now, slot_key=boot, scheduled_for=now, decisions={"boot": boot}
    )
    return Fired(job.name, (born,))


def _skip(db: Database, job: Job, reason: Reason, *, boot: str, now: datetime, error: str | None) -> Fired:
    born = skip(db, job, reason, now=now, slot_key=boot, scheduled_for=now, error=error, decisions={"boot": boot})
    return Fired(job.name, (), ((born, reason, 1),))
