"""The cursor of a job after creation, chain, edit and change of mode."""

from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from rota.model.clock import parse_duration
from rota.model.errors import IntervalParseError, InvalidDuration, InvalidInstant, InvalidValue
from rota.model.records import Job
from rota.model.spec import Anchor, FirstRun, Jitter, JobSpec, Mode, Pace, Schedule
from rota.rules.schedule.instants import delay, fires_at, first_instant, next_instant, within_bounds


class Cursor(NamedTuple):
    """The nominal next instant and the moment it fires, jitter included; both None when nothing is planned."""

    next_for: datetime | None
    next_at: datetime | None


NOWHERE = Cursor(None, None)


def first_cursor(spec: JobSpec, *, created_at: datetime, mode: Mode = Mode.ACTIVE) -> Cursor:
    """Return the cursor of a job that was just created ; `first_run` applies only here."""
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
    job: Job,
    *,
    scheduled_for: datetime,
    first_started_at: datetime | None,
    finished_at: datetime,
    wait: timedelta | None = None,
) -> Cursor:
    """Return the cursor after a scheduled run and its retries are final.

    Completion and start anchors move on. A run_once job whose chain was skipped continues with the next instant, so
    that every instant has its row. Other cursors moved at the fire. `wait`: the wait that a run asked for, in place of
    the interval.
    """
    schedule = job.spec.schedule
    if not job.schedules:
        return NOWHERE
    if schedule.follows_runs:
        nominal = _anchored(job, first_started_at, finished_at, interval=wait or job.interval)
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
    """Return the cursor of a stored job that gets `spec`; `active` while a scheduled chain is not final.

    A used-up job stays so until its schedule changes. After a clock step back the instants up to `accounted_to` have
    their rows already.
    """
    schedule, interval = spec.schedule, spec.schedule.every(mode)
    changed = schedule != job.spec.schedule
    if not spec.enabled or schedule.manual or schedule.reboot or (job.used_up_at is not None and not changed):
        return NOWHERE
    if job.schedules and not changed:
        return Cursor(job.next_for, job.next_at)
    if schedule.run_once and active and not changed:
        return NOWHERE  # this chain may be the one run: its end decides
    if not schedule.follows_runs:
        nominal = next_instant(schedule, after=max(now, accounted_to or now), created_at=job.created_at)
    elif active:
        return NOWHERE
    else:
        nominal = _interval_after_edit(job, schedule, now=now, interval=interval)
    return cursor_at(schedule, nominal, name=job.name, created_at=job.created_at, interval=interval)


def cursor_in_mode(job: Job, mode: Mode, *, now: datetime) -> Cursor:
    """Return the cursor of a job that enters another mode, as if its interval had always been this one.

    A due instant stays, and so does the first one of a job that has not run. An instant in the past is due now.
    """
    due = job.next_for is not None and job.next_for <= now
    planned = replace(job, mode=mode)
    if planned.interval is None and not due:
        return NOWHERE
    if due:
        return Cursor(job.next_for, job.next_at)
    return cursor_of(planned, _interval_after_edit(job, job.spec.schedule, now=now, interval=planned.interval))


def cursor_of(job: Job, nominal: datetime | None) -> Cursor:
    """Return the cursor of a stored job at `nominal`."""
    if nominal is not None and job.spec.schedule.fires_on_time:
        return Cursor(nominal, nominal)
    return cursor_at(job.spec.schedule, nominal, name=job.name, created_at=job.created_at, interval=job.interval)


def cursor_at(
    schedule: Schedule, nominal: datetime | None, *, name: str, created_at: datetime, interval: timedelta | None = None
) -> Cursor:
    """Return the cursor at `nominal`; `interval` if it depends on the mode."""
    if nominal is None:
        return NOWHERE
    return Cursor(nominal, fires_at(schedule, nominal, name=name, created_at=created_at, interval=interval))


def _first_of_interval(schedule: Schedule, created_at: datetime, interval: timedelta | None) -> datetime | None:
    if interval is None:
        return None
    waits = schedule.first_run is FirstRun.AFTER_INTERVAL
    return within_bounds(schedule, created_at + interval if waits else created_at)


def cursor_after_wait(job: Job, wait: timedelta, *, now: datetime) -> Cursor:
    """Return the cursor of a job that waits from now on."""
    return cursor_of(job, within_bounds(job.spec.schedule, now + wait))


def paced(pace: Pace, wait: timedelta) -> timedelta:
    """Return a wait within the bounds of a job.

    >>> paced(Pace(timedelta(minutes=5), timedelta(days=1)), timedelta(days=3))
    datetime.timedelta(days=1)
    """
    return min(max(wait, pace.min), pace.max)


def _anchored(
    job: Job, first_started_at: datetime | None, finished_at: datetime, *, interval: timedelta | None
) -> datetime | None:
    schedule = job.spec.schedule
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
    """Return the start of the wait for the first run, None if the job does not wait.

    An edit or a change of mode must not restart the wait: repeated often enough, the job would never run.
    """
    if schedule.first_run is not FirstRun.AFTER_INTERVAL or not job.spec.schedule.follows_runs:
        return None
    if job.next_for is None or job.interval is None:
        return job.created_at
    return max(job.next_for - job.interval, job.created_at)


MAX_JITTER_PERCENT = 50


def parse_interval(text: str, /) -> timedelta:
    """Return the interval of a text: one positive whole number and one of the units s, m, h and d.

    >>> parse_interval("5m")
    datetime.timedelta(seconds=300)
    """
    if not isinstance(text, str):
        raise IntervalParseError(text, "is not a text such as '5m'")
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise IntervalParseError(text, error.problem) from None


def next_trigger(
    last_completed: datetime | None, interval: str | timedelta, *, jitter: float = 0, now: datetime
) -> datetime:
    """Return when an interval is due: at once the first time, else an interval after its last completion.

    Never before now; `jitter` is the maximum percentage of the interval, chosen by hash of the instant.
    """
    if not 0 <= jitter <= MAX_JITTER_PERCENT:
        hint = "write percent of the interval, such as 10"
        raise InvalidValue(f"a jitter of {jitter} % is not between 0 and {MAX_JITTER_PERCENT}", hint=hint)
    every = interval if isinstance(interval, timedelta) else parse_interval(interval)
    if last_completed is None:
        return now
    nominal = aware(last_completed) + every
    return max(now, nominal + delay(Jitter(percent=jitter), name="", instant=nominal, gap=every))


def is_due(next_run_at: datetime, now: datetime) -> bool:
    """Return whether an instant is due."""
    return aware(next_run_at) <= now


def aware(at: datetime) -> datetime:
    """Return an instant with a time zone; raise InvalidInstant for one without."""
    if at.tzinfo is None:
        hint = "give it one: datetime.now(UTC), or .replace(tzinfo=UTC)"
        raise InvalidInstant(f"{at.isoformat()} has no time zone", hint=hint)
    return at
