"""Cadence: activity, the hours, and the mode that holds for a job (R-18)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from rota.model.spec import JobSpec, Mode, QuietPolicy
from rota.rules.mode import mode_at, next_change
from rota.rules.quiet import quiet_until
from rota.store import cadence, jobs, polls
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


@dataclass(frozen=True, slots=True)
class ProjectMode:
    """The mode that every view shows, until when quiet hours keep it dormant, and how many jobs go by the mode.

    `apart`: how many of them are dormant by quiet hours of their own while the project is not.
    """

    mode: Mode
    quiet_until: datetime | None
    adaptive: int
    apart: int


def project_mode(db: Database, *, now: datetime) -> ProjectMode:
    """Return the mode of the project now."""
    adaptive = cadence.adaptive_jobs(db)
    ends = [None if quiet is None else quiet_until(quiet, now) for quiet, _ in adaptive]
    until = _quiet_until(db, ends, now=now)
    mode = Mode.DORMANT if until is not None else mode_at(now, activity=_activity(db, now))
    resting = sum(number for (_, number), end in zip(adaptive, ends, strict=True) if end is not None)
    return ProjectMode(
        mode, until, adaptive=sum(number for _, number in adaptive), apart=0 if mode is Mode.DORMANT else resting
    )


def _quiet_until(db: Database, ends: Sequence[datetime | None], *, now: datetime) -> datetime | None:
    """Return until when the quiet hours of the poll or the file, or those of every job by mode, make it dormant."""
    poll = jobs.job_by_name(db, polls.POLL)
    file = cadence.quiet_hours(db)
    slows_poll = poll is not None and poll.retired_at is None and poll.mode is not None
    if file is not None and (slows_poll or file.policy is QuietPolicy.DORMANT):
        until = quiet_until(file, now)
        if until is not None:
            return until
    found = [end for end in ends if end is not None]
    return min(found) if found and len(found) == len(ends) else None


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


def _activity(db: Database, now: datetime) -> datetime | None:
    """Return when the last activity was; one that a clock set back left in the future counts as now (R-26)."""
    found = cadence.last_activity(db)
    return None if found is None else min(found.at, now)
