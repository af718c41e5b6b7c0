"""Cadence: notice activity and the hours, and re-plan the jobs whose interval depends on the mode (R-18)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from rota import faults
from rota.engine.fire import fire
from rota.model.spec import JobSpec, Mode
from rota.rules.cursor import cursor_in_mode
from rota.rules.mode import mode_at, next_change
from rota.store import cadence, chains, jobs
from rota.store.driver import Database

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether the mode of some jobs is no longer theirs, and when the next one may change by itself."""

    stale: bool
    changes_at: datetime | None


def touching(operation: Callable[[Database], T], *, what: str, now: datetime) -> Callable[[Database], T]:
    """Return an operation that also counts as activity, in the same transaction."""

    def touched(db: Database) -> T:
        result = operation(db)
        cadence.touch(db, what=what, now=now)
        return result

    return touched


def mode_of(db: Database, spec: JobSpec, *, now: datetime) -> Mode:
    """Return the mode that holds for a job of this definition now."""
    return mode_at(now, activity=_activity(db, now), quiet=cadence.dormant_hours(spec))


def outlook(db: Database, *, now: datetime) -> Outlook:
    """Look whether jobs must be re-planned, and when to look again."""
    planned = cadence.planned_modes(db)
    if not planned:
        return Outlook(stale=False, changes_at=None)
    activity = _activity(db, now)
    stale = any(mode_at(now, activity=activity, quiet=one.quiet) is not one.mode for one in planned)
    changes = [next_change(now, activity=activity, quiet=one.quiet) for one in planned]
    return Outlook(stale, min((at for at in changes if at is not None), default=None))


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
        cursor = cursor_in_mode(replace(job, mode=mode), now=now)
        jobs.move_cursor(
            db,
            job,
            next_for=cursor.next_for,
            next_at=cursor.next_at,
            anchored_at=job.anchored_at,
            fire_number=job.fire_number,
        )
    return job.name


def _activity(db: Database, now: datetime) -> datetime | None:
    """Return when the last activity was; one that a clock set back left in the future counts as now (R-26)."""
    found = cadence.last_activity(db)
    return None if found is None else min(found.at, now)
