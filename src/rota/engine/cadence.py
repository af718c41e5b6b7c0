"""Cadence: activity, the hours, and the mode that holds for a job (R-18)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from rota.model.spec import JobSpec, Mode
from rota.rules.mode import mode_at, next_change
from rota.store import cadence
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


def _activity(db: Database, now: datetime) -> datetime | None:
    """Return when the last activity was; one that a clock set back left in the future counts as now (R-26)."""
    found = cadence.last_activity(db)
    return None if found is None else min(found.at, now)
