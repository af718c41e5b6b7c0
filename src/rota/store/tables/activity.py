"""Rows of activity and polls."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.serialize import decode, encode
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


POLL = "rota/poll"
"""The built-in job that polls; no other job may have a name that begins with `rota/`."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The newest poll: whether it went well and what it said; `data` is that of the newest one that went well."""

    run_id: str
    at: datetime
    ok: bool
    detail: str
    good_at: datetime | None
    data: Mapping[str, Any] | None


def prefetch_poll_job(db: Database) -> None:
    """Ask `poll_job_id` ahead."""
    db.prefetch("job_id_of", name=POLL)


def poll_job_id(db: Database) -> str | None:
    """Return the identifier of the job that polls, None where there is none."""
    row = db.row("job_id_of", name=POLL)
    return row[0] if row else None


def last_poll(db: Database) -> Polled | None:
    """Return the newest poll, None where there was none."""
    row = db.row("poll_last")
    if row is None:
        return None
    data = None if row[5] is None else json.loads(row[5])
    return Polled(row[0], from_ms(row[1]), bool(row[2]), row[3], from_ms_or_none(row[4]), data)


def store_poll(db: Database, *, run_id: str, at: datetime, detail: str, data: Mapping[str, Any] | None) -> None:
    """Store how a poll went; `data` None: it failed."""
    ok = data is not None
    db.execute(
        "poll_store",
        run_id=run_id,
        at=to_ms(at),
        ok=int(ok),
        detail=detail,
        good_at=to_ms_or_none(at if ok else None),
        data=write_json(data) if ok else None,
    )


def waiting(db: Database) -> list[str]:
    """Return the queued runs that wait for a poll."""
    return [run_id for (run_id,) in db.rows("runs_polling")]


def let_go(db: Database) -> int:
    """Make the runs that wait for a poll claimable; return how many."""
    return db.execute("runs_polled")


def suggest(db: Database, job_id: str, interval: timedelta | None) -> None:
    """Store the interval that the server asked for; None: it asked for none."""
    db.execute("job_suggest", id=job_id, suggested=None if interval is None else interval // MILLISECOND)
