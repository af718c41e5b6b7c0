"""Previews of the coming fires of a schedule."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice

from cronsim import CronSim
from msgspec import Struct
from msgspec.structs import replace

from rota.model.records import Job
from rota.model.spec import Mode, Schedule
from rota.model.states import Reason
from rota.rules.schedule.blackouts import Blackout, blackout_at, defers, has_blackouts, waiting_run
from rota.rules.schedule.cron import normalise
from rota.rules.schedule.cursor import Cursor
from rota.rules.schedule.instants import fires_at, first_instant, next_instant, previous_instant, within_bounds
from rota.rules.schedule.timezone import LAST_YEAR, zone

MAX_BLACKOUTS = 1000
"""The search for a run ends after this many consecutive blackouts."""
A_YEAR = timedelta(days=366)
CACHED_JOBS = 2_000
NOTICED = timedelta(seconds=1)
"""An instant is overdue after this time; a scheduler takes a moment to fire."""
_INSTANT = timedelta(microseconds=1)


class UpcomingFire(Struct, frozen=True):
    """A coming fire: its nominal instant, and its start with jitter or `deferred` by quiet hours."""

    nominal: datetime
    at: datetime
    deferred: bool = False


def next_fires(
    schedule: Schedule,
    after: datetime,
    n: int,
    *,
    created_at: datetime | None = None,
    name: str = "",
    mode: Mode = Mode.ACTIVE,
) -> list[UpcomingFire]:
    """Return the next `n` fires strictly after `after`, jitter and quiet hours included.

    An interval that follows runs counts from `after`, as if each run took no time and the mode stayed.

    >>> daily = Schedule(cron=("30 2 * * *",), timezone="Europe/Paris")
    >>> fires = next_fires(daily, datetime.fromisoformat("2026-03-28T00:00:00Z"), 3)
    >>> [f"{fire.at:%d %H:%M}" for fire in fires]
    ['28 01:30', '29 01:00', '30 00:30']
    """
    if after.year > LAST_YEAR:
        return []
    interval = schedule.every(mode)
    since = after + _INSTANT
    if schedule.follows_runs:
        first = None if interval is None else within_bounds(schedule, after + interval)
        since = since if first is None else first
    return fires_from(schedule, since, n, created_at=after if created_at is None else created_at, name=name, mode=mode)


def coming_fires(job: Job, *, n: int) -> list[UpcomingFire]:
    """Return the next fires of a stored job from its cursor on; of a paused job those after the end of its pause."""
    cursor = Cursor(job.next_for, job.next_at)
    if job.paused_at is not None:
        from rota.rules.pause import cursor_after_pause

        cursor = cursor_after_pause(job)
    if not job.schedules or cursor.next_for is None or cursor.next_at is None:
        return []
    mode = job.mode or Mode.ACTIVE
    schedule = job.spec.schedule
    fires = list(_cached_fires(schedule, cursor.next_for, n, created_at=job.created_at, name=job.name, mode=mode))
    if fires and fires[0].nominal == cursor.next_for and not fires[0].deferred:
        fires[0] = replace(fires[0], at=cursor.next_at)  # a clock step may have moved it
    return fires


def overdue_fire(job: Job, *, now: datetime) -> UpcomingFire | None:
    """Return the overdue fire of a job: everything is paused, or no scheduler runs."""
    return next((fire for fire in coming_fires(job, n=1) if now - fire.at > NOTICED), None)


def fires_to_come(job: Job, *, n: int, now: datetime) -> list[UpcomingFire]:
    """Return the next fires of a stored job that are not overdue."""
    if overdue_fire(job, now=now) is None:
        return coming_fires(job, n=n)
    mode = job.mode or Mode.ACTIVE
    return next_fires(job.spec.schedule, now, n, created_at=job.created_at, name=job.name, mode=mode)


@lru_cache(CACHED_JOBS)
def _cached_fires(
    schedule: Schedule, since: datetime, n: int, *, created_at: datetime, name: str, mode: Mode
) -> tuple[UpcomingFire, ...]:
    return tuple(fires_from(schedule, since, n, created_at=created_at, name=name, mode=mode))


def fires_from(
    schedule: Schedule, since: datetime, n: int, *, created_at: datetime, name: str, mode: Mode = Mode.ACTIVE
) -> list[UpcomingFire]:
    """Return the next `n` fires from `since` on; of an anchored schedule `since` is an instant."""
    interval = schedule.every(mode)
    if schedule.follows_runs:
        nominals = _following(schedule, since, interval)
    else:
        nominals = _running(
            schedule, first_instant(schedule, since=since, created_at=created_at), created_at=created_at
        )
    return [
        UpcomingFire(
            nominal,
            fires_at(schedule, nominal, name=name, created_at=created_at, interval=interval),
            deferred=waiting_run(schedule, nominal) is not None,
        )
        for nominal in islice(nominals, min(n, 1) if schedule.run_once else n)
    ]


def _running(schedule: Schedule, nominal: datetime | None, *, created_at: datetime) -> Iterator[datetime]:
    may_skip = has_blackouts(schedule)
    while nominal is not None and nominal.year <= LAST_YEAR:
        running = first_running(schedule, nominal, created_at=created_at) if may_skip else nominal
        if running is None:
            return
        yield running
        quiet = waiting_run(schedule, running)
        after = running if quiet is None else quiet.until - _INSTANT
        nominal = next_instant(schedule, after=after, created_at=created_at)


def first_running(schedule: Schedule, instant: datetime, *, created_at: datetime) -> datetime | None:
    """Return the first instant from `instant` on that runs: the last one of quiet hours that defer, none of others."""
    nominal: datetime | None = instant
    for _ in range(MAX_BLACKOUTS):
        blackout = None if nominal is None else blackout_at(schedule, nominal)
        if nominal is None or blackout is None or blackout.reason is None:
            return nominal
        if blackout.reason is Reason.QUIET_HOURS and defers(schedule):
            return _last_waiting(schedule, nominal, blackout, created_at=created_at)
        nominal = (
            None if blackout.until is None else first_instant(schedule, since=blackout.until, created_at=created_at)
        )
    return None


def wholly_quiet(schedule: Schedule, *, since: datetime, created_at: datetime) -> bool:
    """Return whether all instants of the coming year wait for the end of quiet hours."""
    nominal = first_instant(schedule, since=since, created_at=created_at)
    inside = False
    while nominal is not None and nominal < since + A_YEAR:
        quiet = waiting_run(schedule, nominal)
        if quiet is None:
            return False
        inside, nominal = True, first_instant(schedule, since=quiet.until, created_at=created_at)
    return inside


def _last_waiting(schedule: Schedule, first: datetime, blackout: Blackout, *, created_at: datetime) -> datetime:
    """Return the last instant of the quiet hours that hold `first`, without excluded days."""
    last, fires = first, blackout.fires
    nominal: datetime | None = first
    while nominal is not None and fires is not None and nominal < fires:
        blackout = blackout_at(schedule, nominal)
        assert blackout.until is not None
        if blackout.reason is Reason.QUIET_HOURS:
            last = previous_instant(schedule, before=blackout.until, created_at=created_at) or last
        nominal = first_instant(schedule, since=blackout.until, created_at=created_at)
    return last


def _following(schedule: Schedule, nominal: datetime | None, interval: timedelta | None) -> Iterator[datetime]:
    """Yield the instants from `nominal` on, as if each run took no time."""
    skipped = 0
    while nominal is not None and interval is not None and nominal.year <= LAST_YEAR and skipped < MAX_BLACKOUTS:
        blackout = blackout_at(schedule, nominal)
        if blackout.reason is None or (blackout.reason is Reason.QUIET_HOURS and defers(schedule)):
            skipped = 0
            yield nominal
            nominal = within_bounds(schedule, (blackout.fires or nominal) + interval)
        else:
            skipped += 1
            nominal = within_bounds(schedule, (blackout.until or nominal) + interval)


COMPARED_FIRES = 200


def peer_fires(cron: str, tz: str, *, after: datetime, count: int) -> list[datetime]:
    """Return the next fires of a cron line in a zone, in UTC, as Debian's cron would start them.

    >>> peer_fires("30 2 * * *", "Europe/Paris", after=datetime(2026, 3, 28, tzinfo=UTC), count=2)[1].isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    simulation = CronSim(normalise(cron), after.astimezone(zone(tz)))
    return [at.astimezone(UTC) for at in islice(simulation, count)]
