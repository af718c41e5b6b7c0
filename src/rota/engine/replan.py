"""Re-planning jobs whose interval depends on the mode, when the mode changes (R-18)."""

from datetime import datetime

from rota import faults
from rota.engine.cadence import _activity
from rota.engine.fire import fire
from rota.model.spec import Mode
from rota.rules.cursor import cursor_in_mode
from rota.rules.mode import mode_at
from rota.store import cadence, chains, jobs
from rota.store.driver import Database


def replan(db: Database, *, now: datetime) -> dict[str, Mode]:
    """Give every job with intervals by mode the cursor of the mode that holds now; return those that changed."""
    activity = _activity(db, now)
    changed: dict[str, Mode] = {}
    for planned in cadence.planned_modes(db):
        mode = mode_at(now, activity=activity, quiet=planned.quiet)
        for job_id in cadence.jobs_planned(db, planned) if mode is not planned.mode else ():
            changed[_replan(db, job_id, mode=mode, now=now)] = mode
            faults.point("cadence.replanned")
    return changed


def _replan(db: Database, job_id: str, *, mode: Mode, now: datetime) -> str:
    """Re-plan one job. What has come is fired first: it belongs to the mode that it was planned in."""
    held = jobs.job_by_id(db, job_id)
    if held.mode is mode:
        return held.name  # another scheduler was faster
    fire(db, job_id, now=now)
    job = jobs.job_by_id(db, job_id)
    cadence.set_mode(db, job_id, job.spec, mode=mode)
    waits = job.next_for is None and chains.scheduled_chain_unfinished(db, job_id)
    if job.schedules and job.paused_at is None and not waits:
        cursor = cursor_in_mode(job, mode, now=now)
        jobs.move_cursor(
            db,
            job,
            next_for=cursor.next_for,
            next_at=cursor.next_at,
            anchored_at=job.anchored_at,
            fire_number=job.fire_number,
        )
    return job.name
