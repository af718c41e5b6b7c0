"""How much is going on, and what the shared poll brought: what people ask of R-16 and R-18."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rota.engine.cadence import ProjectMode, mode_of, project_mode
from rota.model.clock import iso
from rota.model.records import Job
from rota.model.spec import Mode
from rota.store import cadence, jobs, polls
from rota.store.driver import Database, Store

TOUCH = "touch"


@dataclass(frozen=True, slots=True)
class PollView:
    """The shared poll: its job, the newest result, and how many runs wait for the next."""

    job: Job
    last: polls.Polled | None
    waiting: int

    @property
    def interval(self) -> timedelta | None:
        """How often it polls now; None: never by itself."""
        return self.job.interval


@dataclass(frozen=True, slots=True)
class CadenceView:
    """The mode, since when and why, and the poll where there is one."""

    project: ProjectMode
    activity: cadence.Activity | None
    poll: PollView | None = None


def touch(store: Store, *, now: datetime) -> None:
    """Count as activity: jobs with intervals by mode become active."""
    store.write(partial(cadence.touch, what=TOUCH, now=now))


def look_at_cadence(db: Database, *, now: datetime) -> CadenceView:
    """Return how much is going on."""
    job, project = _poll_job(db), project_mode(db, now=now)
    if job is not None and job.mode is not None:
        job = replace(job, mode=mode_of(db, job.spec, now=now))  # nobody re-plans where no scheduler runs
    poll = None if job is None else PollView(job, polls.last_poll(db), len(polls.waiting(db)))
    return CadenceView(project, cadence.last_activity(db), poll)


def current_mode(store: Store, *, now: datetime) -> Mode:
    """Return the mode of the project."""
    return store.read(partial(project_mode, now=now)).mode


def _poll_job(db: Database) -> Job | None:
    job = jobs.job_by_name(db, polls.POLL)
    return job if job is not None and job.retired_at is None else None


def cadence_json(view: CadenceView, *, now: datetime) -> dict[str, Any]:
    """Return the mode and the poll as JSON."""
    activity = view.activity
    return {
        "mode": view.project.mode,
        "last_activity_at": iso(activity.at) if activity else None,
        "last_activity": activity.what if activity else None,
        "poll": None if view.poll is None else _poll_json(view.poll, now=now),
    }


def _poll_json(view: PollView, *, now: datetime) -> dict[str, Any]:
    last = view.last
    found: dict[str, Any] = {
        "interval_seconds": view.interval.total_seconds() if view.interval else None,
        "next_at": iso(view.job.next_at) if view.job.next_at else None,
        "waiting": view.waiting,
        "last": None,
    }
    if last is not None:
        found["last"] = {
            "at": iso(last.at),
            "age_seconds": round((now - last.at).total_seconds(), 3),
            "ok": last.ok,
            "detail": last.detail,
            "run_id": last.run_id,
            "data_at": iso(last.good_at) if last.good_at else None,
        }
    return found
