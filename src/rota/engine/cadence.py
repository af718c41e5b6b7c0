"""Cadence: activity, the hours, and the mode that holds for a job (R-18)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from rota.model.records import Run
from rota.model.spec import JobSpec, Mode, QuietPolicy
from rota.model.states import Trigger
from rota.rules.mode import mode_at, next_change
from rota.rules.quiet import quiet_until
from rota.store import cadence, groups, jobs, polls, runs
from rota.store.driver import Database

T = TypeVar("T")

DEPTH = 20
"""How many runs back the start of an agent's run is followed."""


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


def note_agents(db: Database, run_ids: Sequence[str], *, now: datetime) -> None:
    """Count the ends of these runs of agents as activity, unless a job that goes by the mode started them (R-18).

    Otherwise such a job would keep itself active.
    """
    for run_id in run_ids:
        run = runs.run_by_id(db, run_id)
        if run is None or run.started_at is None or run.finished_at is None or _begun_by_mode(db, run):
            continue
        last = cadence.last_activity(db)
        if last is None or last.at < run.finished_at or last.at > now:
            cadence.touch(db, what=f"{run.handle} ended", now=run.finished_at)


def _begun_by_mode(db: Database, run: Run | None) -> bool:
    """Tell whether a run goes back to the schedule of a job with intervals by mode: by retries, groups, other runs."""
    for _ in range(DEPTH):
        first = None if run is None else runs.run_by_id(db, run.chain_id or run.id)
        if first is None:
            return False
        if first.trigger is Trigger.SCHEDULE:
            return jobs.version_spec(db, first.job_id, first.version).schedule.by_mode is not None
        run = _starter(db, first)
    return True


def _starter(db: Database, run: Run) -> Run | None:
    """Return the run that started another one: that of its group, or one whose work did; None for none."""
    if run.group_id is not None:
        group = groups.group_by_id(db, run.group_id)
        return runs.run_by_id(db, group.run_id) if group is not None and group.run_id is not None else None
    handle = run.decisions.get("by", {}).get("run")
    return None if handle is None else runs.run_by_handle(db, handle)


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
