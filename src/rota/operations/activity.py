"""The mode of a project, its activity, its shared poll and its pauses."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from rota.engine.activity import PauseState, ProjectMode, everything_paused, mode_of, paused_jobs, project_mode
from rota.model.clock import iso
from rota.model.records import Job
from rota.model.serialize import fields_json, iso_or_none
from rota.model.spec import Mode
from rota.store.driver import Database, Store
from rota.store.tables import activity, jobs

TOUCH = "touch"


class PollView(Struct, frozen=True):
    """The shared poll: its job, the newest result, and the number of runs that wait for the next."""

    job: Job
    last: activity.Polled | None
    waiting: int

    @property
    def interval(self) -> timedelta | None:
        """The current poll interval; None if it does not poll by itself."""
        return self.job.interval


class CadenceView(Struct, frozen=True):
    """The mode, the last activity, and the poll, if any."""

    project: ProjectMode
    activity: activity.Activity | None
    poll: PollView | None = None


def touch(store: Store, *, now: datetime) -> None:
    """Record activity: jobs with intervals by mode become active."""
    store.write(partial(activity.touch, what=TOUCH, now=now))


def look_at_cadence(db: Database, *, now: datetime) -> CadenceView:
    """Return the mode, the last activity and the poll."""
    job, poll = jobs.job_by_name(db, activity.POLL), None
    if job is not None and job.retired_at is None:
        if job.mode is not None:
            job = replace(job, mode=mode_of(db, job.spec, now=now))  # without a scheduler the stored mode is stale
        poll = PollView(job, activity.last_poll(db), len(activity.waiting(db)))
    return CadenceView(project_mode(db, now=now), activity.last_activity(db), poll)


def current_mode(store: Store, *, now: datetime) -> Mode:
    """Return the mode of the project."""
    return store.read(partial(project_mode, now=now)).mode


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
    return {
        "interval_seconds": view.interval.total_seconds() if view.interval else None,
        "next_at": iso_or_none(view.job.next_at),
        "waiting": view.waiting,
        "last": None
        if last is None
        else {
            "at": iso(last.at),
            "age_seconds": round((now - last.at).total_seconds(), 3),
            **fields_json(last, "ok", "detail", "run_id"),
            "data_at": iso_or_none(last.good_at),
        },
    }


class PauseJson(TypedDict):
    """A pause."""

    since: str
    until: str | None
    reason: str


def pause_json(since: datetime | None, until: datetime | None, *, reason: str | None) -> PauseJson | None:
    """Return a pause as JSON, None for none."""
    return None if since is None else {"since": iso(since), "until": iso_or_none(until), "reason": reason or ""}


class Pauses(Struct, frozen=True):
    """The pauses in effect: of everything, and of each job."""

    everything: PauseState | None
    jobs: tuple[PauseState, ...]


def pauses(store: Store) -> Pauses:
    """Return the pauses in effect."""
    return store.read(pauses_in)


def pauses_in(db: Database) -> Pauses:
    """Return the pauses in effect, inside a transaction."""
    return Pauses(everything_paused(db), tuple(paused_jobs(db)))
