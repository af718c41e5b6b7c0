"""Lulls: the stretches of time whose instants do not run when they come, by quiet hours (R-17) or excluded dates."""

from dataclasses import dataclass
from datetime import datetime

from rota.model.spec import QuietPolicy, Schedule
from rota.model.states import Reason
from rota.rules.exclusion import excluded_until, next_excluded
from rota.rules.quiet import QuietRun, next_quiet, quiet_run


@dataclass(frozen=True, slots=True)
class Lull:
    """A stretch up to before `until` that all instants in it share; `reason` None: they run as ever.

    `until` None: for ever. `fires`: the end of the quiet hours that the instants wait for.
    """

    reason: Reason | None
    until: datetime | None
    fires: datetime | None = None


def has_lulls(schedule: Schedule) -> bool:
    """Tell whether a schedule has instants that do not run when they come."""
    return bool(schedule.excluded) or (schedule.quiet is not None and has_waits(schedule))


def has_waits(schedule: Schedule) -> bool:
    """Tell whether quiet hours act on the instants; `dormant` acts on the mode alone (R-18)."""
    return schedule.quiet is not None and schedule.quiet.policy is not QuietPolicy.DORMANT


def waiting_run(schedule: Schedule, at: datetime) -> QuietRun | None:
    """Return the quiet hours whose end an instant at `at` waits for, None if it fires when it comes."""
    return quiet_run(schedule.quiet, at) if schedule.quiet is not None and has_waits(schedule) else None


def defers(schedule: Schedule) -> bool:
    """Tell whether the last instant of quiet hours runs at their end."""
    return schedule.quiet is not None and schedule.quiet.policy is QuietPolicy.DEFER


def lull_at(schedule: Schedule, at: datetime) -> Lull:
    """Return what the calendar makes of an instant at `at`, and until when that is so. Exclusion goes first."""
    run = waiting_run(schedule, at)
    fires = None if run is None else run.until
    day = excluded_until(schedule, at)
    if day is not None:
        return Lull(Reason.EXCLUDED, day, fires)
    coming = next_excluded(schedule, at)
    if run is not None:
        return Lull(Reason.QUIET_HOURS, run.until if coming is None else min(run.until, coming), fires)
    borders = [at for at in (coming, _next_quiet(schedule, at)) if at is not None]
    return Lull(None, min(borders, default=None))


def _next_quiet(schedule: Schedule, at: datetime) -> datetime | None:
    return next_quiet(schedule.quiet, at) if schedule.quiet is not None and has_waits(schedule) else None
