"""Rows of activity and polls."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from rota.model.agents import Certification
from rota.model.clock import MILLISECOND, to_ms
from rota.model.serialize import decode, encode
from rota.model.spec import JobSpec, Mode, QuietHours, QuietPolicy
from rota.store.driver import Database
from rota.store.rows import record_or_none, value_of, write_json

NO_QUIET = ""
QUIET_KEY = "quiet_hours"


class Activity(Struct, frozen=True):
    """The last activity: its time and kind."""

    at: datetime
    what: str


class Planned(Struct, frozen=True):
    """The mode in which jobs were planned, and their quiet hours."""

    mode: Mode
    quiet: QuietHours | None


def touch(db: Database, *, what: str, now: datetime) -> None:
    """Store an activity."""
    db.execute("activity_touch", now=to_ms(now), what=what)


CERTIFIED = "certified "
"""The beginning of the keys of certifications, before the name of the adapter."""


def certification(db: Database, adapter: str) -> Certification | None:
    """Return the newest certification of an adapter's program, None without one."""
    row = db.row("meta_get", key=CERTIFIED + adapter)
    return None if row is None else msgspec.json.decode(row[0], type=Certification)


def save_certification(db: Database, made: Certification) -> None:
    """Store the certification of a program in the place of the one before."""
    db.execute("meta_set", key=CERTIFIED + made.adapter, value=msgspec.json.encode(made).decode())


def last_activity(db: Database) -> Activity | None:
    """Return the last activity, None for none."""
    return record_or_none(Activity, db.row("activity_last"))


def planned_modes(db: Database) -> list[Planned]:
    """Return the modes and quiet hours in which jobs with intervals by mode were planned."""
    return [Planned(Mode(mode), _read(quiet)) for mode, quiet in db.rows("jobs_modes")]


def adaptive_jobs(db: Database) -> list[tuple[QuietHours | None, int]]:
    """Return the number of jobs with intervals by mode, by their dormant quiet hours."""
    return [(_read(quiet), int(number)) for quiet, number in db.rows("jobs_adaptive")]


def set_quiet_hours(db: Database, quiet: QuietHours | None) -> None:
    """Store the quiet hours of the file."""
    db.execute("meta_set", key=QUIET_KEY, value=_write(quiet))


def quiet_hours(db: Database) -> QuietHours | None:
    """Return the applied quiet hours of the file."""
    return _read(value_of(db, "meta_get", key=QUIET_KEY) or NO_QUIET)


def jobs_planned(db: Database, planned: Planned) -> list[str]:
    """Return the identifiers of the jobs planned in this mode with these quiet hours."""
    return [job_id for (job_id,) in db.rows("jobs_of_mode", mode=planned.mode, quiet=_write(planned.quiet))]


def set_mode(db: Database, job_id: str, spec: JobSpec, *, mode: Mode) -> None:
    """Store the mode of a job's planned cursor; None for a job without intervals by mode."""
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
"""The built-in poll job; no other job name may start with `rota/`."""


class Polled(Struct, frozen=True):
    """The newest poll: its success and detail; `data` is that of the newest successful poll."""

    run_id: str
    at: datetime
    ok: bool
    detail: str
    good_at: datetime | None
    data: Mapping[str, Any] | None


def last_poll(db: Database) -> Polled | None:
    """Return the newest poll, None for none."""
    return record_or_none(Polled, db.row("poll_last"))


def store_poll(db: Database, *, run_id: str, at: datetime, detail: str, data: Mapping[str, Any] | None) -> None:
    """Store the result of a poll; `data` None: it failed."""
    ok = data is not None
    db.execute(
        "poll_store",
        run_id=run_id,
        at=to_ms(at),
        ok=int(ok),
        detail=detail,
        good_at=to_ms(at) if ok else None,
        data=write_json(data) if ok else None,
    )


def waiting(db: Database) -> list[str]:
    """Return the queued runs that wait for a poll."""
    return [run_id for (run_id,) in db.rows("runs_polling")]


def release(db: Database) -> int:
    """Make the runs that wait for a poll claimable; return the number."""
    return db.execute("runs_polled")


def suggest(db: Database, job_id: str, interval: timedelta | None) -> None:
    """Store the interval that the server suggests, None for none."""
    db.execute("job_suggest", id=job_id, suggested=None if interval is None else interval // MILLISECOND)
