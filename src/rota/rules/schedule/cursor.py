"""The cursor of a job: its first, next and following instant for each kind of trigger."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.model.clock import parse_duration
from rota.model.errors import IntervalParseError, InvalidDuration, InvalidInstant, InvalidValue
from rota.model.records import Job
from rota.model.spec import Anchor, FirstRun, Jitter, JobSpec, Mode, Schedule
from rota.rules.schedule.instants import delay, fires_at, first_instant, next_instant, within_bounds


class Cursor(NamedTuple):
    """The nominal next instant and the moment it fires, jitter included; both None when nothing is planned."""

    next_for: datetime | None
    next_at: datetime | None


NOWHERE = Cursor(None, None)


def first_cursor(spec: JobSpec, *, created_at: datetime, mode: Mode = Mode.ACTIVE) -> Cursor:
    """Return the cursor of a job that was just created (R-06: `first_run` applies here and only here)."""
    schedule, interval = spec.schedule, spec.schedule.every(mode)
    if not spec.enabled or schedule.manual or schedule.reboot:
        return NOWHERE
    if schedule.follows_runs:
        nominal = _first_of_interval(schedule, created_at, interval)
    elif schedule.at is not None:
        nominal = first_instant(schedule, since=schedule.at, created_at=created_at)
    elif schedule.interval is not None:
        nominal = first_instant(schedule, since=created_at, created_at=created_at)
    else:
        # As after an edit: a definition is responsible for the instants after the moment it was stored.
        nominal = next_instant(schedule, after=created_at, created_at=created_at)
    return cursor_at(schedule, nominal, name=spec.name, created_at=created_at, interval=interval)


def cursor_after_chain(
    job: Job, *, scheduled_for: datetime, first_started_at: datetime | None, finished_at: datetime
) -> Cursor:
    """Return the cursor once a scheduled run and its retries are final.

    Completion and start anchors move on (R-06). A run_once job that is not used up, since its chain was skipped, goes
    on with the instant after the skipped one, so that every instant has its row (R-07). The cursor of the others has
    moved when they fired.
    """
    schedule = job.spec.schedule
    if not job.schedules:
        return NOWHERE
    if schedule.follows_runs:
        nominal = _anchored(job, first_started_at, finished_at)
    elif schedule.run_once and job.next_for is None:
        nominal = next_instant(schedule, after=scheduled_for, created_at=job.created_at)
    else:
        return Cursor(job.next_for, job.next_at)
    return cursor_of(job, nominal)


def cursor_after_edit(
    job: Job,
    spec: JobSpec,
    *,
    now: datetime,
    active: bool,
    accounted_to: datetime | None = None,
    mode: Mode = Mode.ACTIVE,
) -> Cursor:
    """Return the cursor of a stored job that gets `spec` (R-06, R-14); `active` while a scheduled chain is not final.

    A job that was used up stays so until its schedule changes. After a step back the instants up to `accounted_to`
    have their rows already (R-05).
    """
    schedule, interval = spec.schedule, spec.schedule.every(mode)
    changed = schedule != job.spec.schedule
    if not spec.enabled or schedule.manual or schedule.reboot or (job.used_up_at is not None and not changed):
        return NOWHERE
    if job.schedules and not changed:
        return Cursor(job.next_for, job.next_at)
    if schedule.run_once and active and not changed:
        return NOWHERE  # this very chain may be the once: its end decides
    if not schedule.follows_runs:
        nominal = next_instant(schedule, after=max(now, accounted_to or now), created_at=job.created_at)
    elif active:
        return NOWHERE
    else:
        nominal = _interval_after_edit(job, schedule, now=now, interval=interval)
    return cursor_at(schedule, nominal, name=job.name, created_at=job.created_at, interval=interval)


def cursor_in_mode(job: Job, mode: Mode, *, now: datetime) -> Cursor:
    """Return the cursor of a job that enters another mode: as if its interval had always been this one (R-18).

    An instant that has come stays, and so does the first one of a job that has not run; one that would lie in the past
    comes now.
    """
    due = job.next_for is not None and job.next_for <= now
    planned = replace(job, mode=mode)
    if planned.interval is None and not due:
        return NOWHERE
    if due:
        return Cursor(job.next_for, job.next_at)
    return cursor_of(planned, _interval_after_edit(job, job.spec.schedule, now=now, interval=planned.interval))


def cursor_of(job: Job, nominal: datetime | None) -> Cursor:
    """Return the cursor of a stored job that stands at `nominal`."""
    if nominal is not None and job.spec.schedule.fires_on_time:
        return Cursor(nominal, nominal)
    return cursor_at(job.spec.schedule, nominal, name=job.name, created_at=job.created_at, interval=job.interval)


def cursor_at(
    schedule: Schedule,
    nominal: datetime | None,
    *,
    name: str,
    created_at: datetime,
    interval: timedelta | None = None,
) -> Cursor:
    """Return the cursor that stands at `nominal`; `interval` where it depends on the mode."""
    if nominal is None:
        return NOWHERE
    return Cursor(nominal, fires_at(schedule, nominal, name=name, created_at=created_at, interval=interval))


def _first_of_interval(schedule: Schedule, created_at: datetime, interval: timedelta | None) -> datetime | None:
    if interval is None:
        return None
    waits = schedule.first_run is FirstRun.AFTER_INTERVAL
    return within_bounds(schedule, created_at + interval if waits else created_at)


def _anchored(job: Job, first_started_at: datetime | None, finished_at: datetime) -> datetime | None:
    schedule, interval = job.spec.schedule, job.interval
    if interval is None:
        return None
    if schedule.anchor is Anchor.START and first_started_at is not None:
        return within_bounds(schedule, max(first_started_at + interval, finished_at))
    return within_bounds(schedule, finished_at + interval)


def _interval_after_edit(job: Job, schedule: Schedule, *, now: datetime, interval: timedelta | None) -> datetime | None:
    if interval is None:
        return None
    if not job.schedules:
        return within_bounds(schedule, now + interval)
    anchor = job.anchored_at or _first_anchor(job, schedule)
    if anchor is None:
        return _first_of_interval(schedule, now, interval)
    return within_bounds(schedule, max(anchor + interval, now))


def _first_anchor(job: Job, schedule: Schedule) -> datetime | None:
    """Return the moment from which the first run of a job that waits an interval counts; None where it does not.

    An edit or a change of mode must not begin the wait again: repeated often enough, the job would never run.
    """
    if schedule.first_run is not FirstRun.AFTER_INTERVAL or not job.spec.schedule.follows_runs:
        return None
    if job.next_for is None or job.interval is None:
        return job.created_at
    return max(job.next_for - job.interval, job.created_at)


MOST_JITTER = 50


def parse_interval(text: str, /) -> timedelta:
    """Return the interval that a text names: one positive whole number and one of the units s, m, h and d.

    >>> parse_interval("5m")
    datetime.timedelta(seconds=300)
    """
    if not isinstance(text, str):
        raise IntervalParseError(text, "is no text such as '5m'")
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise IntervalParseError(text, error.problem) from None


def next_trigger(
    last_completed: datetime | None, interval: str | timedelta, *, jitter: float = 0, now: datetime
) -> datetime:
    """Return when an interval is due: at once the first time, else an interval after its last completion.

    Never before now; `jitter` is at most so many percent of the interval, chosen by hash of the instant.
    """
    if not 0 <= jitter <= MOST_JITTER:
        hint = "write percent of the interval, such as 10"
        raise InvalidValue(f"a jitter of {jitter} % is not between 0 and {MOST_JITTER}", hint=hint)
    every = interval if isinstance(interval, timedelta) else parse_interval(interval)
    if last_completed is None:
        return now
    nominal = aware(last_completed) + every
    return max(now, nominal + delay(Jitter(percent=jitter), name="", instant=nominal, gap=every))


def is_due(next_run_at: datetime, now: datetime) -> bool:
    """Tell whether an instant has come."""
    return aware(next_run_at) <= now


def aware(at: datetime) -> datetime:
    """Return an instant that has a zone; one without is refused."""
    if at.tzinfo is None:
        hint = "give it one: datetime.now(UTC), or .replace(tzinfo=UTC)"
        raise InvalidInstant(f"{at.isoformat()} has no time zone", hint=hint)
    return at
