"""Activity, and the modes that jobs with intervals by mode were planned in (R-18)."""

import json
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import from_ms, to_ms
from rota.model.codec import decode, encode
from rota.model.spec import JobSpec, Mode, QuietHours, QuietPolicy
from rota.store.driver import Database
from rota.store.rows import write_json

NO_QUIET = ""
QUIET_KEY = "quiet_hours"


@dataclass(frozen=True, slots=True)
class Activity:
    """When something happened last, and what."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A mode that jobs were planned in, and the quiet hours that those jobs have."""

    mode: Mode
    quiet: QuietHours | None


def touch(db: Database, *, what: str, now: datetime) -> None:
    """Note an activity."""
    db.execute("activity_touch", now=to_ms(now), what=what)


def last_activity(db: Database) -> Activity | None:
    """Return the last activity, None where there never was one."""
    row = db.row("activity_last")
    return Activity(from_ms(row[0]), row[1]) if row else None


def planned_modes(db: Database) -> list[Planned]:
    """Return in which modes, and under which quiet hours, jobs with intervals by mode were planned."""
    return [Planned(Mode(mode), _read(quiet)) for mode, quiet in db.rows("jobs_modes")]


def adaptive_jobs(db: Database) -> list[tuple[QuietHours | None, int]]:
    """Return how many jobs go by the mode, by the quiet hours that make them dormant."""
    return [(_read(quiet), int(number)) for quiet, number in db.rows("jobs_adaptive")]


def set_quiet_hours(db: Database, quiet: QuietHours | None) -> None:
    """Store the quiet hours of the file."""
    db.execute("meta_set", key=QUIET_KEY, value=_write(quiet))


def quiet_hours(db: Database) -> QuietHours | None:
    """Return the quiet hours of the file, as they were applied."""
    row = db.row("meta_get", key=QUIET_KEY)
    return None if row is None else _read(row[0])


def jobs_planned(db: Database, planned: Planned) -> list[str]:
    """Return the identifiers of the jobs that were planned so."""
    return [job_id for (job_id,) in db.rows("jobs_of_mode", mode=planned.mode, quiet=_write(planned.quiet))]


def set_mode(db: Database, job_id: str, spec: JobSpec, *, mode: Mode) -> None:
    """Store the mode that a job's cursor is planned in; none for a job whose interval does not depend on it."""
    if spec.schedule.by_mode is None:
        db.execute("job_set_mode", id=job_id, mode=None, quiet=None)
    else:
        db.execute("job_set_mode", id=job_id, mode=mode, quiet=_write(dormant_hours(spec)))


def dormant_hours(spec: JobSpec) -> QuietHours | None:
    """Return the quiet hours that make a job dormant."""
    quiet = spec.schedule.quiet
    return quiet if quiet is not None and quiet.policy is QuietPolicy.DORMANT else None


def _write(quiet: QuietHours | None) -> str:
    return NO_QUIET if quiet is None else write_json(encode(quiet))


def _read(text: str) -> QuietHours | None:
    return None if text == NO_QUIET else decode(QuietHours, json.loads(text))
